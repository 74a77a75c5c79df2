"""Durations counted in steps, as every data plane tells them.

Takes seconds, gives `Lateness`; touches nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from testbed.protocol.fabric import Lateness

_STEP_S = 20e-6
_STEPS = 5_000
"""Up to a tenth of a second."""
_LONG_S = 0.1
_LONG_STEP_S = 2e-3
_LONG_STEPS = 1_000
"""Those beyond it; what is longer than two seconds is told by the maximum alone."""
LENGTH = _STEPS + _LONG_STEPS + 1


class Histogram:
    """Counts in equal steps, longer ones for what is long."""

    def __init__(self) -> None:
        self._counts = [0] * LENGTH
        self._max_s = 0.0

    def add(self, late_s: float) -> None:
        if late_s > self._max_s:
            self._max_s = late_s
        step = int(late_s / _STEP_S)
        if step >= _STEPS:
            step = min(_STEPS + int((late_s - _LONG_S) / _LONG_STEP_S), _STEPS + _LONG_STEPS)
        self._counts[step] += 1

    @property
    def count(self) -> int:
        return sum(self._counts)

    def percentile_s(self, share: float) -> float:
        return _percentile_s(np.cumsum(self._counts), share, self._max_s)

    def told(self) -> Lateness:
        return told(np.array(self._counts), self._max_s)


def told(counts: NDArray[np.int64], max_s: float) -> Lateness:
    """What counts of LENGTH steps come to."""
    upto = np.cumsum(counts)
    return Lateness(
        count=int(upto[-1]),
        p50_ms=round(_percentile_s(upto, 0.5, max_s) * 1e3, 3),
        p99_ms=round(_percentile_s(upto, 0.99, max_s) * 1e3, 3),
        max_ms=round(max_s * 1e3, 3),
    )


def _percentile_s(upto: NDArray[np.int64], share: float, max_s: float) -> float:
    """The upper end of the step in which it lies, and never more than the maximum."""
    if not upto[-1]:
        return 0.0
    return min(_end_s(int(np.searchsorted(upto, share * upto[-1]))), max_s)


def _end_s(step: int) -> float:
    if step < _STEPS:
        return (step + 1) * _STEP_S
    return _LONG_S + (step - _STEPS + 1) * _LONG_STEP_S if step < _STEPS + _LONG_STEPS else math.inf
