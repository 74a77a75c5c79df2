"""An image that nobody has built yet, though all packages for it are here: made in a second or two, fetching nothing.

Takes an image's name, gives what makes it; asks the Engine, reads the checkout.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.errors import TestbedError
from testbed.image.base import base_here
from testbed.image.build import Request, build_image, context_for
from testbed.image.engine_client import connected
from testbed.image.facts import id_of, image_id, is_name
from testbed.image.packages import Packages, name_of

if TYPE_CHECKING:
    from docker import DockerClient

_ID = re.compile(r"(?:sha256:)?[0-9a-f]{12,64}")
"""Of an image that somebody has built, and which no other can stand for."""


def request_at_hand(engine: DockerClient, image: str) -> Request | None:
    """What makes an image of that name, as `testbed build` would; None where that would have to fetch something."""
    if not is_name(image) or _ID.fullmatch(image):
        return None
    base = base_here(engine)
    if base is None:
        return None
    request = Request(image, base)
    try:
        packages = Packages(context_for(request), base, request.torch, request.wheels)
        name = name_of(engine, packages)
    except TestbedError:  # in files of the user's: `testbed build` says what is wrong with them
        return None
    return request if id_of(engine, name) is not None else None


def have_image(image: str, say: Callable[[str], None]) -> None:
    """It is there afterwards; refuses where it would have to be fetched."""
    with connected() as engine:
        request = None if id_of(engine, image) is not None else request_at_hand(engine, image)
    if request is not None:
        say(f"building the image {image}, since all packages for it are here")
        build_image(request, lambda _: None, say)
    image_id(image)
