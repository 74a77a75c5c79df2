"""The researcher's code: files to put into an image, and files that an image holds.

Takes paths or an image, gives bytes or SHA-256; reads files, asks the Docker Engine, runs nothing. Syntax errors are
found here, before any learner loads a file.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, cast

from testbed.code import FOLDERS
from testbed.errors import Finding, InvalidInput, UsageProblem, Where, error
from testbed.image.facts import code_in, environment_of, labels_of, temporary_container

if TYPE_CHECKING:
    from docker import DockerClient

FOLDER: Final = "/opt/testbed/algorithms"
REQUIREMENTS = "requirements.txt"
NOT_CODE: Final = ("README.md", REQUIREMENTS)
MAX_BYTES: Final = 4 << 20
"""Limit of one Python file."""
_IN_MEMORY_BYTES = 8 << 20


def code_of(engine: DockerClient, image: str) -> dict[str, str]:
    """The SHA-256 of each file in FOLDER of the image, by path. Raises InvalidInput for a broken Python file."""
    found: dict[str, str] = {}
    with temporary_container(engine, image) as container:
        for member, file in _files(engine, container, FOLDER):
            path = PurePosixPath(*PurePosixPath(member).parts[1:])
            name = str(path)
            if name in NOT_CODE or "__pycache__" in path.parts:
                continue
            if name.endswith(".py") and (problem := problem_of(file.read(MAX_BYTES + 1))) is not None:
                raise InvalidInput(f"{FOLDER}/{name} in the image", [problem])
            file.seek(0)
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _files(engine: DockerClient, container: str, path: str) -> Iterator[tuple[str, io.BufferedReader]]:
    """The file at that path of a container, or those below it, with names in the archive; none if missing."""
    from docker.errors import NotFound

    try:
        chunks, _ = engine.api.get_archive(container, path)
    except NotFound:
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as packed:
        packed.writelines(chunks)
        packed.seek(0)
        with tarfile.open(fileobj=packed) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield member.name, cast(io.BufferedReader, file)


def problem_of(data: bytes) -> Finding | None:
    """Why Python cannot parse the file, or None."""
    if len(data) > MAX_BYTES:
        return error("too-large", f"it is larger than {MAX_BYTES >> 20} MiB", "is it the right file?")
    try:
        ast.parse(data)
    except SyntaxError as problem:
        place = Where(problem.lineno or 1, problem.offset or 1)
        return error("syntax", f"{problem.msg} (SyntaxError)", "correct it, then build again", place)
    except (ValueError, RecursionError, MemoryError) as problem:
        return error("syntax", f"Python cannot read this: {problem or type(problem).__name__}")
    return None


def checked(paths: Iterable[Path]) -> dict[str, bytes]:
    """The bytes of each file by base name. Raises an error if a file is missing or not valid Python."""
    found: dict[str, bytes] = {}
    where: dict[str, Path] = {}
    for path in paths:
        name = path.name
        if path.suffix != ".py":
            raise UsageProblem(f"--algorithm {path}: not a Python file", "give a file whose name ends in .py")
        data = read(path)
        if found.get(name, data) != data:
            raise UsageProblem(f"{where[name]} and {path} would have the same name in the image", "rename one of them")
        problem = problem_of(data)
        if problem is not None:
            raise InvalidInput(str(path), [problem])
        found[name], where[name] = data, path
    return found


def read(path: Path) -> bytes:
    """The contents of a file that the user named; refuses large ones."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageProblem(f"{path} is larger than {MAX_BYTES // 2**20} MiB", "is it the right file?")
        return path.read_bytes()
    except OSError as problem:
        raise UsageProblem(f"{path}: {problem.strerror or problem}") from None


@dataclass(frozen=True)
class MissingFile:
    """A file of the plan that the image lacks, or has in another version."""

    file: str
    is_other: bool
    """The image has a file of that name with other contents."""


def missing_files(engine: DockerClient, image: str, wanted: Mapping[str, str | None]) -> list[MissingFile]:
    """Which of the `wanted` files the image lacks. `wanted` maps the plan's file names to SHA-256, or None if unknown.

    Files added by `testbed build` are listed in a label; files added by the Dockerfile are looked up in the image.
    """
    built_in = code_in(labels_of(engine, image))
    unsure = {name: digest for name, digest in wanted.items() if built_in.get(Path(name).name, "") != digest}
    if not unsure:
        return []
    folders = [each for each in environment_of(engine, image).get(FOLDERS, "").split(os.pathsep) if each]
    missing = []
    with temporary_container(engine, image) as container:
        for name, digest in unsure.items():
            digests = (
                hashlib.file_digest(file, "sha256").hexdigest()
                for place in _places(name, folders)
                for _, file in _files(engine, container, place)
            )
            found = next(digests, None)
            if found is None or digest not in (None, found):
                missing.append(MissingFile(name, is_other=found is not None))
    return missing


def _places(name: str, folders: Iterable[str]) -> Iterator[str]:
    """The paths at which a learner looks for the file, in order."""
    if name.startswith("/"):
        yield name
    for folder in folders:
        yield str(PurePosixPath(folder) / PurePosixPath(name).name)
