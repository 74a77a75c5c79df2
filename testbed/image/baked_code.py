"""Whether an image holds the files that a plan names: what lies on this machine means nothing in a container.

Takes an image and the files by their SHA-256, gives those that are not in it; asks the Engine, starts nothing.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from testbed.code import FOLDERS
from testbed.image.facts import code_in, environment_of, labels_of
from testbed.image.passing_container import passing_container

if TYPE_CHECKING:
    from docker import DockerClient

_IN_MEMORY_BYTES = 2**20
_CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Missing:
    """A file that containers would look for, and not find as the plan has it."""

    file: str
    is_other: bool
    """There is one of that name, with something else in it."""


def missing_files(engine: DockerClient, image: str, wanted: Mapping[str, str | None]) -> list[Missing]:
    """`wanted` are files by the names that the plan gives them, each with its SHA-256 where the plan knows it.

    What `testbed build` has put in stands in a label; what a line of a Dockerfile has, only in the image itself.
    """
    built_in = code_in(labels_of(engine, image))
    unsure = {name: digest for name, digest in wanted.items() if built_in.get(Path(name).name, "") != digest}
    if not unsure:
        return []
    folders = [each for each in environment_of(engine, image).get(FOLDERS, "").split(os.pathsep) if each]
    missing = []
    with passing_container(engine, image) as container:
        for name, digest in unsure.items():
            found = next(_digests(engine, container, _places(name, folders)), None)
            if found is None or digest not in (None, found):
                missing.append(Missing(name, is_other=found is not None))
    return missing


def _places(name: str, folders: Iterable[str]) -> Iterator[str]:
    """Where a learner looks, in this order."""
    if name.startswith("/"):
        yield name
    for folder in folders:
        yield str(PurePosixPath(folder) / PurePosixPath(name).name)


def _digests(engine: DockerClient, container: str, paths: Iterable[str]) -> Iterator[str]:
    """Of those that are there."""
    from docker.errors import NotFound

    for path in paths:
        try:
            stream, _ = engine.api.get_archive(container, path)
        except NotFound:
            continue
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as packed:
            for chunk in stream:
                packed.write(chunk)
            packed.seek(0)
            yield from _digest_in(packed)


def _digest_in(packed: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[str]:
    with tarfile.open(fileobj=packed) as archive:
        for member in archive:
            data = archive.extractfile(member) if member.isfile() else None
            if data is not None:
                digest = hashlib.sha256()
                while chunk := data.read(_CHUNK_BYTES):
                    digest.update(chunk)
                yield digest.hexdigest()
                return
