"""How late packets were written, as a histogram. Takes seconds, gives percentiles; touches nothing."""

from __future__ import annotations

from testbed.protocol.fabric import Lateness

_STEP_S = 20e-6
_STEPS = 5_000
"""Up to a tenth of a second; beyond that only the maximum is exact."""


class LatenessCounts:
    """Counts in equal steps."""

    def __init__(self) -> None:
        self._counts = [0] * (_STEPS + 1)
        self.count = 0
        self._max_s = 0.0

    def add(self, late_s: float) -> None:
        self.count += 1
        if late_s > self._max_s:
            self._max_s = late_s
        step = int(late_s / _STEP_S)
        self._counts[step if step < _STEPS else _STEPS] += 1

    def percentile_s(self, share: float) -> float:
        """The upper end of the step in which it lies, and never more than the maximum."""
        left = share * self.count
        for step, count in enumerate(self._counts):
            left -= count
            if count and left <= 0:
                return min((step + 1) * _STEP_S, self._max_s) if step < _STEPS else self._max_s
        return 0.0

    def told(self) -> Lateness:
        return Lateness(
            count=self.count,
            p50_ms=round(self.percentile_s(0.5) * 1e3, 3),
            p99_ms=round(self.percentile_s(0.99) * 1e3, 3),
            max_ms=round(self._max_s * 1e3, 3),
        )
