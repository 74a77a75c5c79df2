"""The researcher's code in an image, however it came there: by `testbed build`, or by a line of the Dockerfile.

Takes an image, gives the SHA-256 of every file of its folder of algorithms; asks the Engine, runs nothing. A file that
Python could not load is found here, before any learner meets it.
"""

from __future__ import annotations

import ast
import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Final

from testbed.errors import Finding, InvalidInput, Where, error
from testbed.image.passing_container import passing_container

if TYPE_CHECKING:
    from docker import DockerClient

FOLDER: Final = "/opt/testbed/algorithms"
NOT_CODE: Final = ("README.md", "requirements.txt")
MAX_BYTES: Final = 4 << 20
"""Of one file of Python."""
_CHUNK_BYTES, _IN_MEMORY_BYTES = 1 << 20, 8 << 20


def code_of(engine: DockerClient, image: str) -> dict[str, str]:
    """By the path below that folder; raises InvalidInput for a file that is no Python though it is called so."""
    from docker.errors import NotFound

    found: dict[str, str] = {}
    with passing_container(engine, image) as container:
        try:
            chunks, _ = engine.api.get_archive(container, FOLDER)
        except NotFound:
            return {}
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as packed:
            packed.writelines(chunks)
            packed.seek(0)
            found.update(_digests(packed))
    return found


def _digests(packed: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[tuple[str, str]]:
    with tarfile.open(fileobj=packed) as archive:
        for member in archive:
            name = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and name not in NOT_CODE and "__pycache__" not in PurePosixPath(name).parts:
                yield name, _digest(file, name)


def _digest(file: IO[bytes], name: str) -> str:
    whole, kept = hashlib.sha256(), bytearray()
    is_code = name.endswith(".py")
    while chunk := file.read(_CHUNK_BYTES):
        whole.update(chunk)
        if is_code and len(kept) <= MAX_BYTES:
            kept += chunk
    if is_code and (problem := problem_of(bytes(kept))) is not None:
        raise InvalidInput(f"{FOLDER}/{name} in the image", [problem])
    return whole.hexdigest()


def problem_of(data: bytes) -> Finding | None:
    """Why Python cannot read it."""
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
