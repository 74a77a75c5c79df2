"""The one way in which a row fails: what it names is not there, or not as it says."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Stale(Exception):
    """A row no longer says one thing of the code; the message names what is there instead."""


def no_such(what: str, name: str, there: Iterable[str]) -> Stale:
    """`what` called `name` is not there; the nearest name is told."""
    near = get_close_matches(name, sorted(set(there)), n=1, cutoff=0.0)
    return Stale(f"no {what} {name}" + (f"; the nearest name is {near[0]}" if near else ""))
