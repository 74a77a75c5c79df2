"""Shares of a number of nodes, such as how many clients a server asks.

Takes numbers, gives numbers; touches nothing.
"""

from __future__ import annotations

from math import ceil


def part_of(count: int, factor: float) -> int:
    """So many times as many, at least 1; rounded up, but not because of what a factor such as 0.1 is in binary."""
    return max(1, ceil(round(count * factor, 9)))
