"""How much later than asked for the fabric has carried packets, and when that is too much.

Takes real seconds, gives counts and words; touches nothing. Four things can go wrong. A packet is written later than
it was due. Or a node's frame is read so late that the link which it was to go to stood idle meanwhile: then everything
after it is later, though never later than due. Each time that may be too short to matter, and still add up: where a
node writes faster than the fabric reads, every frame waits in the node's device for those before it. Or the fabric
stands still. At time scale k, k times as much of the first three is still all right.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.engines.fabric.lateness import LatenessCounts

LATE_MS, LATE_PART = 2.0, 0.05
"""A packet is late from so many milliseconds on, or from that part of its path's latency on, whichever is more."""
WAIT_MS = 5.0
"""A frame has waited for long when a link stood idle for so many milliseconds."""
MEAN_ADDED_MS, ADDED_PART = 0.5, 0.02
"""By so many milliseconds, and by that part of the latencies of all paths that frames took, waiting in devices may add
to delays on average: as much as late computing may add to a run."""
LONG_ADDED_MS, LONG_ADDED_PART = 2.0, 0.10
"""And to the delay of one frame in a hundred by so many milliseconds, or by that part of its path's latency, whichever
is more: rare delays are met by TCP's own variation, and on average they count all the same."""
MOST_SHARE = 0.01
"""Of packets late, or frames that have waited for long, in a run that is valid."""
FAR = 10.0
"""Times as late ..."""
MOST_FAR_SHARE = 0.001
"""... may be this share."""
FEWEST = 10
"""So many may be late in any run, however short."""
ABSENT_S = 0.02
"""Shorter absences show in the packets."""
MOST_ABSENT_SHARE = 0.01
"""Of the time, in which the fabric did not run though it was to. TCP waits for its acknowledgements meanwhile, so that
few packets are late, whatever it lasts."""
LONGEST_ABSENCE_S = 0.5
"""At once."""


class Delays:
    """Of all packets since it was made."""

    def __init__(self, time_scale: float, began_s: float) -> None:
        """`began_s` is by the same clock as what `why_wrong` is told."""
        self.lateness = LatenessCounts()
        self.waits = LatenessCounts()
        self.device_waits = LatenessCounts()
        self.absent_s = self.longest_absence_s = 0.0
        self._began_s = began_s
        self._scale = time_scale
        self._late_s = LATE_MS / 1e3 * time_scale
        self._long_s = LONG_ADDED_MS / 1e3 * time_scale
        self._wait_s = WAIT_MS / 1e3 * time_scale
        self._packets = self._late = self._far = self._waited = self._delayed = 0
        self._added_s = self._latency_s = 0.0

    def written(self, late_s: float, latency_s: float, packets: int) -> None:
        """Packets at once, by how much too late, and the latency of their path."""
        self.lateness.add(late_s)
        self._packets += packets
        if late_s > self._late_s and late_s > LATE_PART * latency_s:
            self._late += packets
            if late_s > FAR * max(self._late_s, LATE_PART * latency_s):
                self._far += packets

    def overslept(self, seconds: float) -> None:
        """The fabric did not run, for so long after it was to."""
        if seconds > ABSENT_S * self._scale:
            self.absent_s += seconds
            self.longest_absence_s = max(self.longest_absence_s, seconds)

    def read(self, idle_s: float, added_s: float, latency_s: float) -> None:
        """A frame that is carried: how long a link may have stood idle for want of it, how much its wait added, and the
        latency of its path."""
        self._latency_s += latency_s
        self.waits.add(idle_s)
        self.device_waits.add(added_s)
        if not added_s:
            return
        if idle_s > self._wait_s:
            self._waited += 1
        self._added_s += added_s
        if added_s > self._long_s and added_s > LONG_ADDED_PART * latency_s:
            self._delayed += 1

    @property
    def late_share(self) -> float:
        return self._late / max(1, self._packets)

    @property
    def wait_share(self) -> float:
        return self._waited / max(1, self.waits.count)

    @property
    def device_wait_share(self) -> float:
        """Of the frames, those to whose delays their wait in devices added more than `LONG_ADDED_MS` and its part."""
        return self._delayed / max(1, self.device_waits.count)

    @property
    def device_wait_mean_s(self) -> float:
        return self._added_s / max(1, self.device_waits.count)

    def why_wrong(self, now_s: float) -> Iterator[str]:
        """In words; nothing when all is well."""
        limit = f"{LATE_MS:g} ms and {LATE_PART:.0%} of their path's latency"
        if self._late > max(FEWEST, MOST_SHARE * self._packets):
            yield f"{self.late_share:.2%} of the packets were later than {limit} (at most {MOST_SHARE:.0%} may be)"
        elif self._far > max(FEWEST, MOST_FAR_SHARE * self._packets):
            share, most = self._far / self._packets, f"at most {MOST_FAR_SHARE:.1%} may be"
            yield f"{share:.2%} of the packets were later than {FAR:g} times {limit} ({most})"
        if self._waited > max(FEWEST, MOST_SHARE * self.waits.count):
            yield (
                f"{self.wait_share:.2%} of the frames were read so late that a link may have stood idle for more than "
                f"{WAIT_MS:g} ms (at most {MOST_SHARE:.0%} may be)"
            )
        yield from self._why_devices_are_full()
        passed_s = max(now_s - self._began_s, LONGEST_ABSENCE_S)
        if self.absent_s > MOST_ABSENT_SHARE * passed_s or self.longest_absence_s > LONGEST_ABSENCE_S * self._scale:
            yield (
                f"the fabric got no processor for {self.absent_s:.1f} s of {passed_s:.0f} s, "
                f"for {self.longest_absence_s:.2f} s at once "
                f"(limits {MOST_ABSENT_SHARE:.0%}, {LONGEST_ABSENCE_S * self._scale:g} s)"
            )

    def _why_devices_are_full(self) -> Iterator[str]:
        """One reason is enough: what is too much at the 99th percentile is often too much on average."""
        frames = self.device_waits.count
        mean_ms = self.device_wait_mean_s * 1e3 / self._scale
        if self._delayed > max(FEWEST, MOST_SHARE * frames):
            p99_ms = self.device_waits.percentile_s(0.99) * 1e3 / self._scale
            yield (
                f"packets waited {p99_ms:.3g} ms (p99) in nodes' devices before the fabric read them, "
                f"{self.device_wait_share:.2%} of the frames for more than {LONG_ADDED_MS:g} ms and "
                f"{LONG_ADDED_PART:.0%} of their path's latency (at most {MOST_SHARE:.0%} may)"
            )
        elif frames > FEWEST and mean_ms > MEAN_ADDED_MS and self._added_s > ADDED_PART * self._latency_s:
            yield (
                f"packets waited {mean_ms:.3g} ms on average in nodes' devices before the fabric read them "
                f"(limits {MEAN_ADDED_MS:g} ms and {ADDED_PART:.0%} of their paths' latency)"
            )
