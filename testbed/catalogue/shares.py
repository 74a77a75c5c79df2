"""Shares: of a number of nodes, such as how many clients a server asks, and of a model.

Takes numbers, gives numbers; touches nothing.
"""

from __future__ import annotations

from math import ceil


def fragments_of(fraction: float) -> int:
    """The number of fragments that each have about this part of a model: rounded, not cut off."""
    return max(1, round(1 / fraction))


def part_of(count: int, factor: float) -> int:
    """`count` times `factor`, at least 1, rounded up; the binary error of factors such as 0.1 does not count."""
    return max(1, ceil(round(count * factor, 9)))
