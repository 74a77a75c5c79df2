"""One line of `testbed doctor`. Takes nothing, gives a type; touches nothing."""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    name: str
    ok: bool
    found: str
    hint: str = ""
    required: bool = False
    """Whether without it no run of real processes is what was asked for."""
