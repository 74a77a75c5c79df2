"""The tries that were made: lines of a JSONL file, appended one by one; takes and gives `Try`, touches that file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
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


def commit_of(root: Path) -> str:
    """The checkout's; with a mark of its own for each state of changes that are not committed."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout  # noqa: S607

    changed = git("diff", "HEAD")
    mark = f"+{sha256(changed.encode()).hexdigest()[:8]}" if changed else ""
    return git("rev-parse", "--short=12", "HEAD").strip() + mark


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
