"""What there is to know of an image: which one a name stands for, what is in it.

Takes a name, gives facts; asks the Engine. The plan records the id; labels say which code was built in.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from testbed.errors import PreflightRefused
from testbed.image.context import package
from testbed.image.engine_client import connected
from testbed.topologies.model import BUILT_IMAGE

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT_TAG = BUILT_IMAGE
VERSION_LABEL = "org.opencontainers.image.version"
BASE_LABEL = "org.opencontainers.image.base.name"
TORCH_LABEL = "testbed.torch"
PYTHON_LABEL = "testbed.python"
CODE_LABEL = "testbed.code"
"""The SHA-256 of every file of the user's code, by its path below `algorithms`, as JSON."""
STAGE_LABEL = "testbed.stage"
SOURCE_LABEL = "testbed.source"
"""The digest of testbed's own files."""


_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_OLD_S: Final = 600.0
"""A build of another user's may be at work on what is younger."""


def is_name(tag: str) -> bool:
    """Whether an image can be called so."""
    return _NAME.fullmatch(tag) is not None


def may_mean_image(text: str) -> bool:
    """Whether the Engine could find an image by that: by a name, one with a digest, or an id."""
    name, _, digest = text.partition("@")
    return is_name(name) and (not digest or _DIGEST.fullmatch(digest) is not None)


def image_id(tag: str) -> str:
    """The id of the image (`sha256:…`): what is in it can never be other than now. Refuses when there is none."""
    with connected() as engine:
        found = id_of(engine, tag)
    if found is None:
        raise PreflightRefused(f"there is no image {tag}", f"build it: testbed build --tag {tag}")
    return found


def code_in(labels: Mapping[str, str]) -> dict[str, str]:
    """The SHA-256 of every file of code built in, by name, as the label says; what else is in it counts as nothing."""
    try:
        value = json.loads(labels.get(CODE_LABEL, "{}"))
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: digest for name, digest in value.items() if isinstance(name, str) and isinstance(digest, str)}


def code_label(code: Mapping[str, str]) -> str:
    """What the label says of files with these SHA-256."""
    return json.dumps(dict(sorted(code.items())))


def id_of(engine: DockerClient, tag: str) -> str | None:
    """The id of the image of that name; None when it is not on this Engine."""
    document = _inspected(engine, tag)
    return None if document is None else str(document["Id"])


def size_of(engine: DockerClient, tag: str) -> int:
    """Bytes of all its layers."""
    document = _inspected(engine, tag)
    size = document.get("Size") if document else None
    return size if isinstance(size, int) else 0


def labels_of(engine: DockerClient, tag: str) -> dict[str, str]:
    """An image's labels; none when there is no such image."""
    labels = _config(engine, tag).get("Labels")
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def environment_of(engine: DockerClient, tag: str) -> dict[str, str]:
    """The variables that an image sets; none when there is no such image."""
    words = _config(engine, tag).get("Env")
    pairs = (str(each).partition("=") for each in words) if isinstance(words, list) else ()
    return {name: value for name, _, value in pairs}


def _config(engine: DockerClient, tag: str) -> dict[str, object]:
    document = _inspected(engine, tag)
    config = document.get("Config") if document else None
    return config if isinstance(config, dict) else {}


def _inspected(engine: DockerClient, tag: str) -> dict[str, object] | None:
    from docker.errors import NotFound

    try:
        document = engine.images.get(tag).attrs
    except NotFound:
        return None
    return {str(key): value for key, value in document.items()}


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


def why_not_this_testbed(engine: DockerClient, image: str) -> str | None:
    """Nothing where they are the same, to the byte."""
    labels = labels_of(engine, image)
    if labels.get(SOURCE_LABEL) == package().digest():
        return None
    code = [f"--algorithm {name}" for name in code_in(labels)]
    anew = f"`{' '.join(['testbed build', '--tag', image, *code])}` makes it anew"
    if SOURCE_LABEL in labels or VERSION_LABEL in labels:
        return f"the testbed in the image {image} is not this one, so its learners may do something else; {anew}"
    return f"nothing tells whether the testbed in the image {image} is this one; {anew}"


@contextmanager
def temporary_container(
    engine: DockerClient,
    image: str,
    command: Sequence[str] = ("true",),
    entrypoint: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Not started, and without a network; its files are the image's."""
    made = engine.api.create_container(
        image,
        command=list(command),
        entrypoint=None if entrypoint is None else list(entrypoint),
        network_disabled=True,
        **(more or {}),
    )
    id_ = str(made["Id"])
    try:
        yield id_
    finally:
        engine.api.remove_container(id_, force=True)
