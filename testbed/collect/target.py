"""When a run first was as accurate as asked for, what that had cost, and how exactly that is known.

Takes each node's evaluations and traffic, gives emulated seconds and bytes; touches nothing.

Nodes are not evaluated at the same moments, so their curves are put on one time grid: at every time at which any node
has a new value, each node counts with its latest. The mean is taken from the moment on at which all nodes that were
there from the beginning have a value; one that joined later counts from its own first value on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.collect.journal import JournalResult

_CLOSE = 1e-9
"""Ten nodes at 0.7 have a mean of 0.6999999999999998 in floating point, and have reached 0.7."""


@dataclass(frozen=True)
class Curve:
    """One node's values over time, by time; `start_s` is when it began."""

    start_s: float
    t: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class MeanCurve:
    """The mean over nodes; it holds its value until the next time."""

    t: NDArray[np.float64]
    value: NDArray[np.float64]


def mean_curve(curves: Sequence[Curve]) -> MeanCurve:
    """The mean of the nodes' latest values, at every time that one of them changes."""
    curves = [curve for curve in curves if curve.t.size]
    if not curves:
        return MeanCurve(np.empty(0), np.empty(0))
    first = np.array([curve.t[0] for curve in curves])
    founders = np.array([curve.start_s for curve in curves]) <= first.min()
    ready = first[founders].max() if founders.any() else first.max()
    t = np.concatenate([curve.t for curve in curves])
    change = np.concatenate([np.diff(curve.value, prepend=0.0) for curve in curves])
    joins = np.concatenate([np.arange(curve.t.size) == 0 for curve in curves])
    order = np.argsort(t, kind="stable")
    t, change, joins = t[order], change[order], joins[order]
    last = np.append(t[1:] != t[:-1], True)  # of those at one time
    mean = np.cumsum(change)[last] / np.cumsum(joins)[last]
    grid = t[last]
    return MeanCurve(grid[grid >= ready], mean[grid >= ready])


def time_to(target: float, curve: MeanCurve) -> float | None:
    """When the mean first was at least the target; None when it never was."""
    reached = np.flatnonzero(curve.value >= target - _CLOSE)
    return float(curve.t[reached[0]]) if reached.size else None


def looked_before(t: float, curves: Sequence[Curve]) -> float:
    """Since when nobody had looked: the earliest, over the nodes, of the last evaluation before `t`, or the start.

    A node that was not evaluated again after it had left, or was done, says nothing about how often one looks.
    """
    found = []
    for curve in curves:
        before = curve.t[curve.t < t]
        if curve.t.size and curve.t[-1] >= t and (before.size or curve.t[0] == t):
            found.append(float(before[-1]) if before.size else curve.start_s)
    return min(found, default=t)


def bytes_until(t: float, journals: Sequence[JournalResult]) -> int:
    """All that nodes had sent by then; a round's bytes count when it is over, what followed the last one at the end."""
    rounds = sum(int(journal.rounds.sent_bytes[journal.rounds.t <= t].sum()) for journal in journals)
    return rounds + sum(left.sent_bytes for journal in journals for left in journal.leftovers if left.t <= t)
