"""Whether a run in real time was what its plan says, as its control has judged.

Takes the folder of a run, gives a word and the reasons; reads `summary.json`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.run_files import Malformed, read_document

UNKNOWN = "unknown"
OVERLOADED, BROKEN = "overloaded", "broken"
NOT_VALID = frozenset({OVERLOADED, BROKEN})
VALID = "valid"
_WORDS = NOT_VALID | {VALID}


class Computing(msgspec.Struct, frozen=True):
    added_share: float | None = None
    """What late computing has added to the time of the node with the most of it, as a part of the run's time."""


class Judged(msgspec.Struct, frozen=True):
    health: str = UNKNOWN
    why: tuple[str, ...] = ()
    """Of being overloaded."""
    computing: Computing = Computing()


def read_health(folder: Path) -> str:
    """The word alone."""
    return read_judged(folder).health


def read_judged(folder: Path) -> Judged:
    """`valid`, `overloaded`, `broken`, or `unknown` where nothing says so that can be read."""
    try:
        judged = read_document(folder / "summary.json", folder, Judged)
    except (OSError, Malformed):
        return Judged()
    return judged if judged.health in _WORDS else Judged()
