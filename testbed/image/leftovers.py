"""Images that builds have made and nobody names any more.

Takes nothing, removes them; asks the Engine. Only testbed's own, known by their label, and none that something runs in.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from testbed.image.facts import STAGE_LABEL

if TYPE_CHECKING:
    from docker import DockerClient

_OLD_S: Final = 600.0
"""A build of another user's may be at work on what is younger."""


def dropped(engine: DockerClient) -> set[str]:
    """What is left of the stage that is thrown away: as large as all packages twice over."""
    return {str(each["Id"]) for each in _unnamed(engine, f"{STAGE_LABEL}=packages")}


def old(engine: DockerClient) -> set[str]:
    """What had a name that another image has now, and what builds that were broken off have left."""
    before = time.time() - _OLD_S
    return {str(each["Id"]) for each in _unnamed(engine, STAGE_LABEL) if float(str(each["Created"])) < before}


def replaced(engine: DockerClient, image: str) -> set[str]:
    """The image itself, unless it has a name still."""
    from docker.errors import NotFound

    try:
        return set() if engine.images.get(image).tags else {image}
    except NotFound:
        return set()


def remove(engine: DockerClient, images: Iterable[str]) -> None:
    """As far as nothing needs them: a container of one, running or not, keeps it."""
    from docker.errors import APIError

    for each in sorted(images):
        try:
            engine.api.remove_image(each)
        except APIError:
            continue


def _unnamed(engine: DockerClient, label: str) -> list[dict[str, object]]:
    return list(engine.api.images(filters={"dangling": True, "label": label}))
