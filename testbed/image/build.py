"""Builds the image that learners run in.

Takes a request, gives the built image; asks the Docker Engine, reads the checkout and the named files. There are two
steps. The first makes an image with all packages, and is skipped if the packages have not changed. The second adds
testbed and the user's code, in a second or two.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import __version__
from testbed.errors import CouldNotStart, TestbedError
from testbed.image.base import base_here, choose_base
from testbed.image.build_stream import Tell
from testbed.image.code import NOT_CODE, REQUIREMENTS, checked, code_of, read
from testbed.image.context import ALGORITHMS, PACKAGE, Context, checkout, context_of
from testbed.image.engine_client import connected
from testbed.image.facts import (
    BASE_LABEL,
    CODE_LABEL,
    DEFAULT_TAG,
    PYTHON_LABEL,
    SOURCE_LABEL,
    TORCH_LABEL,
    VERSION_LABEL,
    code_label,
    id_of,
    image_id,
    is_name,
    old,
    remove,
    replaced,
    size_of,
)
from testbed.image.packages import (
    CORE_COMPILER,
    MORE_STAGE,
    OF_THE_MACHINE,
    Packages,
    image_with,
    name_of,
    on_top_of,
    run_build,
    versions_in,
)

if TYPE_CHECKING:
    from docker import DockerClient

TORCH_CPU = "cpu"
NO_CORE = (
    "no C compiler was there when the image's packages were built, so its fabric runs in Python, about seven times "
    "slower"
)
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{12,64}")
"""An image id: names one existing image, so it cannot be built."""


@dataclass(frozen=True)
class Request:
    """What to build."""

    tag: str = DEFAULT_TAG
    base: str | None = None
    """None: the default base."""
    algorithms: tuple[Path, ...] = ()
    requirements: Path | None = None
    """Replaces the checkout's `algorithms/requirements.txt`."""
    wheels: Path | None = None
    """A folder of packages. With it, nothing is fetched."""
    torch: str = TORCH_CPU


@dataclass(frozen=True)
class Built:
    """A built image and its contents."""

    tag: str
    id: str
    size_bytes: int
    base: str
    versions: dict[str, str] = field(default_factory=dict)
    """The versions of Python and all packages, by name."""
    code: tuple[str, ...] = ()
    """The user's files, as paths below `algorithms`."""


def build_image(request: Request, tell: Tell, say: Callable[[str], None]) -> Built:
    """Builds the requested image. Errors in files are reported before the Docker Engine is asked."""
    context = context_for(request)
    code = _code(context)
    with connected() as engine, one_build(say):
        base = choose_base(engine, request.base, say)
        packages = image_with(engine, Packages(context, base, request.torch, request.wheels), tell, say)
        versions = versions_in(engine, packages)
        if CORE_COMPILER not in versions:
            say(f"warning: {NO_CORE}; with the package ziglang: docker image rm {packages}, and build again")
        labels = {
            VERSION_LABEL: __version__,
            BASE_LABEL: base,
            PYTHON_LABEL: versions.get("python", ""),
            TORCH_LABEL: versions.get("torch", ""),
            SOURCE_LABEL: context.only(PACKAGE).digest(),
        }

        def built(tag: str | None, code: Mapping[str, str], tell: Tell) -> str:
            return run_build(
                engine,
                on_top_of(context, MORE_STAGE),
                tag,
                tell,
                arguments={"BASE": base, "REQUIREMENTS": packages},
                labels={**labels, CODE_LABEL: code_label(code)},
                network="none" if request.wheels is not None else "host",
            )

        from docker.utils import parse_repository_tag

        before = id_of(engine, request.tag)
        # The code label must list what the image really holds, so a nameless image is built and read first.
        nameless = built(None, code, tell)
        try:
            found = code_of(engine, nameless)
            if found == code:
                engine.api.tag(nameless, *parse_repository_tag(request.tag))
            else:  # the Dockerfile has added code, which the label must list, too
                built(request.tag, found, lambda _: None)
        except BaseException:
            remove(engine, replaced(engine, nameless))
            raise
        now = id_of(engine, request.tag)
        assert now is not None  # noqa: S101 - it has just been built
        if found != code:
            remove(engine, replaced(engine, nameless))
        remove(engine, old(engine) | (replaced(engine, before) if before is not None else set()))
        return Built(request.tag, now, size_of(engine, now), base, versions, tuple(sorted(found)))


def context_for(request: Request) -> Context:
    """The build context without packages."""
    root = checkout()
    context = context_of(root)
    inside = {
        name: path
        for name, path in context.files.items()
        if not any(name == each or name.startswith(f"{each}/") for each in OF_THE_MACHINE)
    }
    own = [path for name, path in inside.items() if name.startswith(f"{ALGORITHMS}/") and name.endswith(".py")]
    for path in own:
        checked([path])
    extra = {f"{ALGORITHMS}/{name}": data for name, data in checked(request.algorithms).items()}
    if request.requirements is not None:
        extra[f"{ALGORITHMS}/{REQUIREMENTS}"] = read(request.requirements)
    return Context(inside, extra)


def _code(context: Context) -> dict[str, str]:
    """The user's code that the image will hold, unless the Dockerfile adds more."""
    below = context.only(ALGORITHMS)
    names = {name.removeprefix(f"{ALGORITHMS}/"): name for name in below.names()}
    return {
        short: hashlib.sha256(below.read(name)).hexdigest() for short, name in names.items() if short not in NOT_CODE
    }


@contextmanager
def one_build(say: Callable[[str], None]) -> Iterator[None]:
    """Excludes other builds of this user while entered."""
    path = Path(tempfile.gettempdir()) / f"testbed-build-{os.getuid()}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise CouldNotStart(f"cannot make {path}: {problem.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build by this user")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def request_at_hand(engine: DockerClient, image: str) -> Request | None:
    """The request with which `testbed build` makes the image; None if that would have to fetch something."""
    if not is_name(image) or _ID.fullmatch(image):
        return None
    base = base_here(engine)
    if base is None:
        return None
    request = Request(image, base)
    try:
        packages = Packages(context_for(request), base, request.torch, request.wheels)
        name = name_of(engine, packages)
    except TestbedError:  # an error in the user's files, which `testbed build` reports
        return None
    return request if id_of(engine, name) is not None else None


def have_image(image: str, say: Callable[[str], None]) -> None:
    """Ensures that the image is present; refuses if something would have to be fetched."""
    with connected() as engine:
        request = None if id_of(engine, image) is not None else request_at_hand(engine, image)
    if request is not None:
        say(f"building the image {image}, since all packages for it are here")
        build_image(request, lambda _: None, say)
    image_id(image)
