"""The tries that were made: lines of a JSONL file, appended one by one; takes and gives `Try`, touches that file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec


class Try(msgspec.Struct, frozen=True):
    """One try of one case. `load` is the machine's load average of the last minute, before it began."""

    soak: str
    case: str
    number: int
    commit: str
    date: str
    busy: int
    load: float
    seconds: float
    is_good: bool
    verdict: str
    figures: dict[str, object]

    def is_same_kind(self, other: Conditions) -> bool:
        return (self.soak, self.commit, self.busy) == (other.soak, other.commit, other.busy)


class Conditions(msgspec.Struct, frozen=True):
    """Tries under the same ones count together."""

    soak: str
    commit: str
    busy: int


def commit_of(root: Path, results: Path | None = None) -> str:
    """The checkout's; with a mark of its own for each state of what is not committed: changes, and files that are new.

    The file of results is none of these, wherever it is: it grows with every try.
    """

    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", root, *words], capture_output=True, check=True).stdout  # noqa: S607

    names = git("ls-files", "--others", "--exclude-standard", "-z").decode(errors="surrogateescape").split("\0")
    new = [root / name for name in names if name and (results is None or root / name != results.absolute())]
    changed = git("diff", "HEAD")
    if not changed and not new:
        return _head(git)
    mark = sha256(changed)
    for each in new:
        content = each.read_bytes() if each.is_file() else b""
        mark.update(sha256(str(each.relative_to(root)).encode(errors="surrogateescape")).digest())
        mark.update(sha256(content).digest())
    return f"{_head(git)}+{mark.hexdigest()[:8]}"


def _head(git: Callable[..., bytes]) -> str:
    return git("rev-parse", "--short=12", "HEAD").decode().strip()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def append(file: Path, one: Try) -> None:
    """On a line of its own, even after one that a crash has cut off."""
    file.parent.mkdir(parents=True, exist_ok=True)
    so_far = file.read_bytes() if file.exists() else b""
    with file.open("ab") as lines:
        begins = b"\n" if so_far and not so_far.endswith(b"\n") else b""
        lines.write(begins + msgspec.json.encode(one) + b"\n")


def read(file: Path, conditions: Conditions) -> list[Try]:
    """Those made under the same conditions, in order."""
    if not file.exists():
        return []
    return [one for one in _whole(file.read_bytes().splitlines()) if one.is_same_kind(conditions)]


def _whole(lines: Iterable[bytes]) -> Iterable[Try]:
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Try)
        except msgspec.DecodeError:  # cut off by a crash, or by a full disk
            continue
