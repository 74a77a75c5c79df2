"""Counts in words: `1 link`, `2 links`. Pure."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """The number and the word, in the plural unless there is exactly one."""
    return f"{count} {what}{'' if count == 1 else 's'}"
