"""How late packets were written and frames read, counted. Takes real seconds, gives `DelayFigures`; touches nothing."""

from __future__ import annotations

from testbed.engines.fabric.delays import DelayFigures, DelayLimits
from testbed.engines.fabric.histogram import Histogram


class DelayCounts:
    """Of all packets since it was made."""

    def __init__(self, limits: DelayLimits, began_s: float) -> None:
        self._limits = limits
        self._began_s = began_s
        self._lateness, self._waits, self._device_waits = Histogram(), Histogram(), Histogram()
        self._packets = self._late = self._far = self._waited = self._delayed = 0
        self._added_s = self._latency_s = 0.0
        self._absent_s = self._longest_absence_s = 0.0

    def written(self, late_s: float, latency_s: float, packets: int) -> None:
        """Packets at once, by how much too late, and the latency of their path."""
        self._lateness.add(late_s)
        self._packets += packets
        limits = self._limits
        if late_s > limits.late_s and late_s > limits.late_part * latency_s:
            self._late += packets
            if late_s > limits.far * max(limits.late_s, limits.late_part * latency_s):
                self._far += packets

    def overslept(self, seconds: float) -> None:
        """The fabric did not run, for so long after it was to."""
        if seconds > self._limits.absent_s:
            self._absent_s += seconds
            self._longest_absence_s = max(self._longest_absence_s, seconds)

    def read(self, idle_s: float, added_s: float, latency_s: float) -> None:
        """A frame that is carried: how long a link may have stood idle for want of it, how much its wait added, and the
        latency of its path."""
        self._latency_s += latency_s
        self._waits.add(idle_s)
        self._device_waits.add(added_s)
        if not added_s:
            return
        if idle_s > self._limits.wait_s:
            self._waited += 1
        self._added_s += added_s
        if added_s > self._limits.added_s and added_s > self._limits.added_part * latency_s:
            self._delayed += 1

    def figures(self) -> DelayFigures:
        return DelayFigures(
            began_s=self._began_s,
            packets=self._packets,
            late=self._late,
            far=self._far,
            frames=self._waits.count,
            waited=self._waited,
            delayed=self._delayed,
            added_s=self._added_s,
            latency_s=self._latency_s,
            absent_s=self._absent_s,
            longest_absence_s=self._longest_absence_s,
            lateness=self._lateness.told(),
            waits=self._waits.told(),
            device_waits=self._device_waits.told(),
        )
