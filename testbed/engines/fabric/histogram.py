"""Durations counted in steps, as every data plane tells them.

Takes seconds, gives `Lateness`; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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

    def __init__(self, counts: Sequence[int] | None = None, max_s: float = 0.0) -> None:
        """Counts that were made elsewhere have LENGTH steps."""
        self._counts = [0] * LENGTH if counts is None else list(counts)
        self._max_s = max_s

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
        """The upper end of the step in which it lies, and never more than the maximum."""
        left = share * self.count
        for step, count in enumerate(self._counts):
            left -= count
            if count and left <= 0:
                return min(_end_s(step), self._max_s)
        return 0.0

    def told(self) -> Lateness:
        return Lateness(
            count=self.count,
            p50_ms=round(self.percentile_s(0.5) * 1e3, 3),
            p99_ms=round(self.percentile_s(0.99) * 1e3, 3),
            max_ms=round(self._max_s * 1e3, 3),
        )


def _end_s(step: int) -> float:
    if step < _STEPS:
        return (step + 1) * _STEP_S
    return _LONG_S + (step - _STEPS + 1) * _LONG_STEP_S if step < _STEPS + _LONG_STEPS else math.inf
