"""Extracts named files from an archive, and nothing else.

Takes the path of an archive (tar, zip/wheel, Debian package), gives the paths of the wanted files; touches the
target folder. A name inside an archive never becomes a path: files are written under our own names, each up to a
limit.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from lzma import LZMAError
from pathlib import Path
from typing import IO

from testbed.node.data.problems import SourceFailed

MOST_BYTES = 256 << 20
"""Limit of one file; the largest in use has 47 MB."""
_MOST_MEMBERS = 100_000
_CHUNK = 1 << 20


def check_sha256(file: Path, expected: str) -> None:
    """Raises SourceFailed unless the file has this hash."""
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != expected:
        raise SourceFailed(f"{file.name} has SHA-256 {found}, expected {expected}")


def extract(archive: Path, wanted: Mapping[str, str], into: Path) -> dict[str, Path]:
    """Extracts the wanted files (our name → name in the archive) into `into` under our names."""
    try:
        if archive.suffix in (".whl", ".zip"):
            found = _from_zip(archive, wanted, into)
        elif archive.suffix == ".deb":
            found = _from_debian(archive, wanted, into)
        else:
            with tarfile.open(archive, "r|*") as opened:
                found = _from_tar(opened, wanted, into)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, LZMAError, zlib.error, NotImplementedError) as problem:
        raise SourceFailed(f"{archive.name} is damaged: {problem}") from None
    except RuntimeError as problem:  # raised by zipfile for files with a password
        raise SourceFailed(f"{archive.name} cannot be read: {problem}") from None
    missing = [name for ours, name in wanted.items() if ours not in found]
    if missing:
        raise SourceFailed(f"{archive.name} does not contain {', '.join(missing)}")
    return found


def _from_tar(opened: tarfile.TarFile, wanted: Mapping[str, str], into: Path) -> dict[str, Path]:
    ours_by_name = {name: ours for ours, name in wanted.items()}
    found: dict[str, Path] = {}
    for number, member in enumerate(opened):
        if number > _MOST_MEMBERS:
            raise SourceFailed("the archive has too many members")
        ours = ours_by_name.get(member.name.removeprefix("./"))
        if ours is None or ours in found or not member.isreg():
            continue
        stream = opened.extractfile(member)
        assert stream is not None  # noqa: S101 - it is a regular file
        found[ours] = _write(stream, into / ours, member.size, member.name)
        if len(found) == len(wanted):
            break
    return found


def _from_zip(archive: Path, wanted: Mapping[str, str], into: Path) -> dict[str, Path]:
    found = {}
    with zipfile.ZipFile(archive) as opened:
        for ours, name in wanted.items():
            with suppress(KeyError):
                info = opened.getinfo(name)
                with opened.open(info) as stream:
                    found[ours] = _write(stream, into / ours, info.file_size, name)
    return found


def _from_debian(archive: Path, wanted: Mapping[str, str], into: Path) -> dict[str, Path]:
    """Extracts by Debian's own tool, which knows every compression of packages; unpacks only wanted files."""
    tool = shutil.which("dpkg-deb")
    if tool is None:
        raise SourceFailed("dpkg-deb is not installed here")
    with subprocess.Popen(  # noqa: S603 - no shell; arguments are ours
        [tool, "--fsys-tarfile", archive], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as opened:
                return _from_tar(opened, wanted, into)
        finally:
            process.kill()  # the rest of the archive is not needed


def _write(stream: IO[bytes], target: Path, size_bytes: int, name: str) -> Path:
    if size_bytes > MOST_BYTES:
        raise SourceFailed(f"{name} is larger than {MOST_BYTES} bytes")
    with target.open("wb") as file:
        while chunk := stream.read(_CHUNK):
            if file.tell() + len(chunk) > size_bytes:
                raise SourceFailed(f"{name} is larger than it says")
            file.write(chunk)
        if file.tell() != size_bytes:
            raise SourceFailed(f"{name} is shorter than it says")
    return target
