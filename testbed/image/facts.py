"""Facts about an image: its id, size, labels and environment.

Takes a name, gives facts; asks the Docker Engine. Plans record the id; labels say which code was built in.
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
"""Younger images may belong to another user's build that is still running."""


def is_name(tag: str) -> bool:
    """Whether it is a valid image name."""
    return _NAME.fullmatch(tag) is not None


def may_mean_image(text: str) -> bool:
    """Whether it may identify an image: a name, a name with a digest, or an id."""
    name, _, digest = text.partition("@")
    return is_name(name) and (not digest or _DIGEST.fullmatch(digest) is not None)


def image_id(tag: str) -> str:
    """The id of the image (`sha256:…`), whose contents never change. Refuses if there is no such image."""
    with connected() as engine:
        found = id_of(engine, tag)
    if found is None:
        raise PreflightRefused(f"there is no image {tag}", f"build it: testbed build --tag {tag}")
    return found


def code_in(labels: Mapping[str, str]) -> dict[str, str]:
    """The SHA-256 of every built-in file of code, by name, from the label. Malformed entries are ignored."""
    try:
        value = json.loads(labels.get(CODE_LABEL, "{}"))
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: digest for name, digest in value.items() if isinstance(name, str) and isinstance(digest, str)}


def code_label(code: Mapping[str, str]) -> str:
    """The label's value for files with these SHA-256."""
    return json.dumps(dict(sorted(code.items())))


def id_of(engine: DockerClient, tag: str) -> str | None:
    """The id of the image of that name; None if the Docker Engine has none."""
    document = _inspected(engine, tag)
    return None if document is None else str(document["Id"])


def size_of(engine: DockerClient, tag: str) -> int:
    """The size of all layers of an image, in bytes."""
    document = _inspected(engine, tag)
    size = document.get("Size") if document else None
    return size if isinstance(size, int) else 0


def labels_of(engine: DockerClient, tag: str) -> dict[str, str]:
    """An image's labels; none if there is no such image."""
    labels = _config(engine, tag).get("Labels")
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def environment_of(engine: DockerClient, tag: str) -> dict[str, str]:
    """The environment variables that an image sets; none if there is no such image."""
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
    """Leftover images of the temporary build stage, twice as large as all packages."""
    return {str(each["Id"]) for each in _unnamed(engine, f"{STAGE_LABEL}=packages")}


def old(engine: DockerClient) -> set[str]:
    """Old images without a name: replaced by newer ones, or left by interrupted builds."""
    before = time.time() - _OLD_S
    return {str(each["Id"]) for each in _unnamed(engine, STAGE_LABEL) if float(str(each["Created"])) < before}


def replaced(engine: DockerClient, image: str) -> set[str]:
    """The image itself if it has no name any more, else nothing."""
    from docker.errors import NotFound

    try:
        return set() if engine.images.get(image).tags else {image}
    except NotFound:
        return set()


def remove(engine: DockerClient, images: Iterable[str]) -> None:
    """Removes images that no container uses."""
    from docker.errors import APIError

    for each in sorted(images):
        try:
            engine.api.remove_image(each)
        except APIError:
            continue


def _unnamed(engine: DockerClient, label: str) -> list[dict[str, object]]:
    return list(engine.api.images(filters={"dangling": True, "label": label}))


def why_not_this_testbed(engine: DockerClient, image: str) -> str | None:
    """A warning if the image's testbed differs from the running one in any byte, or cannot be compared."""
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
    """A container without a network, not started; removed at the end."""
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
