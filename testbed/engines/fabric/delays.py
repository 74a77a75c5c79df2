"""How much later than asked for the fabric has carried packets, and when that is too much.

Takes real seconds, gives counts and words; touches nothing. Two things can go wrong. A packet is written later than it
was due. Or a node's frame is read so late that the link which it was to go to stood idle meanwhile: then everything
after it is later, though never later than due. At time scale k, k times as much of both is still all right.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.engines.fabric.lateness import LatenessCounts

LATE_MS, LATE_PART = 2.0, 0.05
"""A packet is late from so many milliseconds on, or from that part of its path's latency on, whichever is more."""
WAIT_MS = 5.0
"""A frame has waited for long when a link stood idle for so many milliseconds."""
MOST_SHARE = 0.01
"""Of packets late, or frames that have waited for long, in a run that is valid."""
FAR = 10.0
"""Times as late ..."""
MOST_FAR_SHARE = 0.001
"""... may be this share."""
FEWEST = 1_000
"""With fewer packets, shares say nothing."""


class Delays:
    """Of all packets since it was made."""

    def __init__(self, time_scale: float) -> None:
        self.lateness = LatenessCounts()
        self.waits = LatenessCounts()
        self._scale = time_scale
        self._late_s = LATE_MS / 1e3 * time_scale
        self._wait_s = WAIT_MS / 1e3 * time_scale
        self._late = self._far = self._waited = 0

    def written(self, late_s: float, latency_s: float) -> None:
        """A packet, by how much too late, and the latency of its path."""
        self.lateness.add(late_s)
        if late_s > self._late_s and late_s > LATE_PART * latency_s:
            self._late += 1
            if late_s > FAR * max(self._late_s, LATE_PART * latency_s):
                self._far += 1

    def read(self, idle_s: float) -> None:
        """A frame, and for how long a link may have stood idle for want of it."""
        self.waits.add(idle_s)
        if idle_s > self._wait_s:
            self._waited += 1

    @property
    def late_share(self) -> float:
        return self._late / max(1, self.lateness.count)

    @property
    def wait_share(self) -> float:
        return self._waited / max(1, self.waits.count)

    def why_wrong(self) -> Iterator[str]:
        """In words; nothing when all is well."""
        if self.lateness.count >= FEWEST:
            limit = f"{LATE_MS:g} ms and {LATE_PART:.0%} of their path's latency"
            if self.late_share > MOST_SHARE:
                yield f"{self.late_share:.1%} of the packets were later than {limit} (at most {MOST_SHARE:.0%} may be)"
            elif self._far > MOST_FAR_SHARE * self.lateness.count:
                share = self._far / self.lateness.count
                most = f"at most {MOST_FAR_SHARE:.1%} may be"
                yield f"{share:.2%} of the packets were later than {FAR:g} times {limit} ({most})"
        if self.waits.count >= FEWEST and self.wait_share > MOST_SHARE:
            yield (
                f"{self.wait_share:.1%} of the frames were read so late that a link may have stood idle for more than "
                f"{WAIT_MS:g} ms (at most {MOST_SHARE:.0%} may be)"
            )
