"""What a run may be called, and what it is called when nobody says so.

Takes names, gives a name or UsageProblem; touches nothing.
"""

from __future__ import annotations

import re

from testbed.errors import UsageProblem

LONGEST = 100
_RUN_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
_NO_START = "._-"
_ROOM_FOR_A_NUMBER = 5


def checked_run_name(given: str) -> str:
    """The same, if it can be a folder's name everywhere."""
    if not _RUN_NAME.fullmatch(given):
        raise UsageProblem(f"`{given}` cannot be a run's name", f"use letters, digits and . _ -, at most {LONGEST}")
    return given


def made_run_name(topology: str, algorithm: str, ending: str = "") -> str:
    """One that can be a run's, with room for a number behind it; a long one loses of its middle, never its ending."""
    words = _FOREIGN.sub("-", f"{topology}-{algorithm.rpartition(':')[2]}").lstrip(_NO_START)
    end = f"-{ending}" if ending else ""
    return (words[: LONGEST - _ROOM_FOR_A_NUMBER - len(end)] or "run") + end
