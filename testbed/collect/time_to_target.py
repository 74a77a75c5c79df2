"""When a run first reached a target accuracy, the bytes sent until then, and how exactly the time is known.

Takes evaluations and traffic of the nodes, gives emulated seconds and bytes; touches nothing.

Nodes are not evaluated at the same times, so their curves are put on one time grid: at every time at which any node has
a new value, each node counts with its latest. The mean begins when all nodes that were there from the beginning have a
value; a node that joined later counts from its first value on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.collect.journal import JournalResult

_CLOSE = 1e-9
"""Tolerance: ten nodes at 0.7 have a mean of 0.6999999999999998 in floating point, and have reached 0.7."""


@dataclass(frozen=True)
class Curve:
    """One node's values in order of time; `start_s` is when it began."""

    start_s: float
    t: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class MeanCurve:
    """The mean over nodes, constant between the given times."""

    t: NDArray[np.float64]
    value: NDArray[np.float64]


def mean_curve(curves: Sequence[Curve]) -> MeanCurve:
    """The mean of the nodes' latest values at every time at which one of them changes."""
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
    last = np.append(t[1:] != t[:-1], True)  # of those at the same time
    mean = np.cumsum(change)[last] / np.cumsum(joins)[last]
    grid = t[last]
    return MeanCurve(grid[grid >= ready], mean[grid >= ready])


def time_to(target: float, curve: MeanCurve) -> float | None:
    """When the mean first reached the target; None when it never did."""
    reached = np.flatnonzero(curve.value >= target - _CLOSE)
    return float(curve.t[reached[0]]) if reached.size else None


def looked_before(t: float, curves: Sequence[Curve]) -> float:
    """The earliest, over the nodes, of their last evaluation before `t`, or of their start.

    Nodes that had left or were done are ignored: they were not evaluated again.
    """
    found = []
    for curve in curves:
        before = curve.t[curve.t < t]
        if curve.t.size and curve.t[-1] >= t and (before.size or curve.t[0] == t):
            found.append(float(before[-1]) if before.size else curve.start_s)
    return min(found, default=t)


def bytes_until(t: float, journals: Sequence[JournalResult]) -> int:
    """Bytes that nodes had sent by `t`; a round's bytes count at its end, those after the last at the node's end."""
    rounds = sum(int(journal.rounds.sent_bytes[journal.rounds.t <= t].sum()) for journal in journals)
    return rounds + sum(left.sent_bytes for journal in journals for left in journal.leftovers if left.t <= t)
