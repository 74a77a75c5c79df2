"""From when on a fabric carries packets too late to be the network that was asked for.

Takes what a data plane has counted, gives words; touches nothing. Four things can go wrong. A packet is written later
than it was due. Or a node's frame is read so late that the link which it was to go to stood idle meanwhile: then
everything after it is later, though never later than due. Each time that may be too short to matter, and still add up:
where a node writes faster than the fabric reads, every frame waits in the node's device for those before it. Or the
fabric stands still. At time scale k, k times as much of the first three is still all right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from testbed.protocol.fabric import Lateness

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


class DelayLimits(NamedTuple):
    """What a data plane counts apart, in real seconds and parts of a path's latency."""

    late_s: float
    late_part: float
    far: float
    """Times as late."""
    wait_s: float
    added_s: float
    added_part: float
    absent_s: float


def limits(time_scale: float) -> DelayLimits:
    return DelayLimits(
        late_s=LATE_MS / 1e3 * time_scale,
        late_part=LATE_PART,
        far=FAR,
        wait_s=WAIT_MS / 1e3 * time_scale,
        added_s=LONG_ADDED_MS / 1e3 * time_scale,
        added_part=LONG_ADDED_PART,
        absent_s=ABSENT_S * time_scale,
    )


class DelayFigures(NamedTuple):
    """What a data plane has counted of delays, in real seconds."""

    began_s: float
    """Since when, by the host's clock."""
    packets: int
    """Written."""
    late: int
    far: int
    frames: int
    """Read and carried."""
    waited: int
    """Frames read so late that a link may have stood idle for longer than `DelayLimits.wait_s`."""
    delayed: int
    """Frames to whose delays their wait in devices added more than `DelayLimits.added_s` and its part."""
    added_s: float
    """To the delays of all frames."""
    latency_s: float
    """Of all frames' paths."""
    absent_s: float
    longest_absence_s: float
    lateness: Lateness
    """Of packets written."""
    waits: Lateness
    """For how long a link may have stood idle because a frame was not read yet."""
    device_waits: Lateness
    """What it added to frames' delays that they lay in nodes' devices until they were read."""

    @property
    def late_share(self) -> float:
        return self.late / max(1, self.packets)

    @property
    def wait_share(self) -> float:
        return self.waited / max(1, self.frames)

    @property
    def device_wait_share(self) -> float:
        return self.delayed / max(1, self.frames)

    @property
    def device_wait_mean_s(self) -> float:
        return self.added_s / max(1, self.frames)


def why_too_late(figures: DelayFigures, time_scale: float, now_s: float) -> Iterator[str]:
    """In words; nothing when all is well."""
    limit = f"{LATE_MS:g} ms and {LATE_PART:.0%} of their path's latency"
    if figures.late > max(FEWEST, MOST_SHARE * figures.packets):
        yield f"{figures.late_share:.2%} of the packets were later than {limit} (at most {MOST_SHARE:.0%} may be)"
    elif figures.far > max(FEWEST, MOST_FAR_SHARE * figures.packets):
        share, most = figures.far / figures.packets, f"at most {MOST_FAR_SHARE:.1%} may be"
        yield f"{share:.2%} of the packets were later than {FAR:g} times {limit} ({most})"
    if figures.waited > max(FEWEST, MOST_SHARE * figures.frames):
        yield (
            f"{figures.wait_share:.2%} of the frames were read so late that a link may have stood idle for more than "
            f"{WAIT_MS:g} ms (at most {MOST_SHARE:.0%} may be)"
        )
    yield from _why_devices_are_full(figures, time_scale)
    longest_s = LONGEST_ABSENCE_S * time_scale
    passed_s = max(now_s - figures.began_s, LONGEST_ABSENCE_S)
    if figures.absent_s > MOST_ABSENT_SHARE * passed_s or figures.longest_absence_s > longest_s:
        yield (
            f"the fabric got no processor for {figures.absent_s:.1f} s of {passed_s:.0f} s, "
            f"for {figures.longest_absence_s:.2f} s at once (limits {MOST_ABSENT_SHARE:.0%}, {longest_s:g} s)"
        )


def _why_devices_are_full(figures: DelayFigures, time_scale: float) -> Iterator[str]:
    """One reason is enough: what is too much at the 99th percentile is often too much on average."""
    mean_ms = figures.device_wait_mean_s * 1e3 / time_scale
    if figures.delayed > max(FEWEST, MOST_SHARE * figures.frames):
        yield (
            f"packets waited {figures.device_waits.p99_ms / time_scale:.3g} ms (p99) in nodes' devices before the "
            f"fabric read them, {figures.device_wait_share:.2%} of the frames for more than {LONG_ADDED_MS:g} ms and "
            f"{LONG_ADDED_PART:.0%} of their path's latency (at most {MOST_SHARE:.0%} may)"
        )
    elif figures.frames > FEWEST and mean_ms > MEAN_ADDED_MS and figures.added_s > ADDED_PART * figures.latency_s:
        yield (
            f"packets waited {mean_ms:.3g} ms on average in nodes' devices before the fabric read them "
            f"(limits {MEAN_ADDED_MS:g} ms and {ADDED_PART:.0%} of their paths' latency)"
        )
