"""Whether a run in real time was what its plan says, as its control has judged.

Takes the folder of a run, gives a word; reads `summary.json`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

UNKNOWN = "unknown"
_WORDS = frozenset({"valid", "overloaded"})


class _Judged(msgspec.Struct):
    health: str


def read_health(folder: Path) -> str:
    """`valid`, `overloaded`, or `unknown` where nothing says so that can be read."""
    try:
        health = msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Judged).health
    except (OSError, msgspec.MsgspecError):
        return UNKNOWN
    return health if health in _WORDS else UNKNOWN
