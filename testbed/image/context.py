"""The files that a build is sent: the same files are always the same bytes, so that the Engine knows its layers again.

Takes a checkout (or what the wheel holds in place of one) and files that are added, gives a tar archive; reads files.
Names are in order, times, owners and the umask of whoever made a file are left out.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final

import testbed
from testbed.errors import UsageProblem

_PACKAGE = Path(testbed.__file__).parent
_IN_WHEEL = Path(__file__).parent / "checkout"
_TEMPLATES = _PACKAGE / "templates"
"""Of an installed wheel: no container renders anything."""
_NEVER = ("__pycache__",)
PACKAGE, ALGORITHMS = "testbed", "algorithms"
DOCKERFILE: Final = "Dockerfile"
SCRIPTS: Final = "image"
PROJECT: Final = ("pyproject.toml", "constraints.txt")
_ALWAYS = (DOCKERFILE, *PROJECT, SCRIPTS, PACKAGE, ALGORITHMS)
"""A build reads these itself."""
EVERYTHING = "*"
_CONTINUED = re.compile(r"\\[ \t]*\n")
_TAKES = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Context:
    """What a build is sent, by its name in there: files of this machine, and bytes that are in none."""

    files: Mapping[str, Path]
    extra: Mapping[str, bytes] = field(default_factory=dict)

    def with_extra(self, more: Mapping[str, bytes]) -> Context:
        """Bytes come before files of the same name."""
        return Context(self.files, {**self.extra, **more})

    def only(self, *roots: str) -> Context:
        """What is at these names or below them."""
        return Context(
            {name: path for name, path in self.files.items() if _below(name, roots)},
            {name: data for name, data in self.extra.items() if _below(name, roots)},
        )

    def names(self) -> list[str]:
        return sorted({*self.files, *self.extra})

    def read(self, name: str) -> bytes:
        return self.extra[name] if name in self.extra else _read(self.files[name])

    def digest(self) -> str:
        """The SHA-256 of all names and what is in the files."""
        whole = hashlib.sha256()
        for name in self.names():
            whole.update(f"{name}\0{hashlib.sha256(self.read(name)).hexdigest()}\n".encode())
        return whole.hexdigest()

    def archive(self) -> IO[bytes]:
        """As a tar archive, in a file that is gone when it is closed."""
        whole: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's
        try:
            with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for name in self.names():
                    _add(archive, name, self)
        except OSError as problem:
            whole.close()
            what = problem.filename or "what the image is built from"
            raise UsageProblem(f"cannot pack {what}: {problem.strerror or problem}") from None
        except BaseException:
            whole.close()
            raise
        whole.seek(0)
        return whole


def checkout() -> Path:
    """The folder that the Dockerfile is in: this checkout, or what an installed wheel holds of it."""
    root = _PACKAGE.parent
    is_checkout = (root / DOCKERFILE).is_file() and (root / "pyproject.toml").is_file()
    return root if is_checkout else _IN_WHEEL


def context_of(root: Path) -> Context:
    """Of a checkout what a build needs, but what its .dockerignore leaves out; nothing else of it is even looked at.

    testbed itself comes from where it is running.
    """
    from docker.utils.build import exclude_paths

    ignored = root / ".dockerignore"
    patterns = [line.strip() for line in ignored.read_text().splitlines()] if ignored.is_file() else []
    patterns = [each for each in patterns if each and not each.startswith("#")]
    needed = [f"!{each}" for each in sorted({*_ALWAYS, *_taken(root)})]
    files = {}
    for name in exclude_paths(str(root), [EVERYTHING, *needed, *patterns]):
        path = root / name
        if path.is_file() and not any(part in _NEVER for part in path.parts):
            files[PurePosixPath(name.replace(os.sep, "/")).as_posix()] = path
    if root != _PACKAGE.parent:
        files.update(package().files)
    return Context(files)


def _taken(root: Path) -> set[str]:
    """By its Dockerfile; what is built without one may need all."""
    dockerfile = root / DOCKERFILE
    return sources_of(_read(dockerfile).decode(errors="replace")) if dockerfile.is_file() else {EVERYTHING}


def package() -> Context:
    """testbed as it is running here; what the wheel holds of the checkout is not needed in the image."""
    return Context(
        {
            f"{PACKAGE}/{path.relative_to(_PACKAGE).as_posix()}": path
            for path in _PACKAGE.rglob("*")
            if path.is_file()
            and not any(path.is_relative_to(each) for each in (_IN_WHEEL, _TEMPLATES))
            and not any(part in _NEVER for part in path.parts)
        }
    )


def _below(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}/") for root in roots)


def _add(archive: tarfile.TarFile, name: str, context: Context) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    if name in context.extra:
        entry.size = len(context.extra[name])
        archive.addfile(entry, io.BytesIO(context.extra[name]))
        return
    path = context.files[name]
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        entry.size = status.st_size
        entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
        archive.addfile(entry, file)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageProblem(f"{path}: {problem.strerror or problem}") from None


def sources_of(dockerfile: str) -> set[str]:
    """The first parts of all paths that it copies, which may be patterns; EVERYTHING where they can be any."""
    return {
        _first_part(source)
        for line in _TAKES.findall(_CONTINUED.sub(" ", dockerfile))
        for source in _sources_in(line.strip())
    }


def _sources_in(line: str) -> Iterator[str]:
    """Without the place in the image, which is the last word."""
    words = line.split()
    flags = [word for word in words if word.startswith("--")]
    if any(flag.startswith("--from=") for flag in flags):  # it is another image's
        return
    rest = words[len(flags) :]
    if rest and rest[0].startswith("["):
        try:
            rest = [str(each) for each in json.loads(" ".join(rest))]
        except ValueError:
            yield EVERYTHING
            return
    yield from rest[:-1]


def _first_part(source: str) -> str:
    parts = PurePosixPath(source.lstrip("/")).parts
    return EVERYTHING if not parts or parts[0] == ".." or "$" in parts[0] else parts[0]
