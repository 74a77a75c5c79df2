"""The time scale with which a machine carries the traffic of a plan.

Takes figures, or a plan, gives a time scale, or words, or a refusal; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from testbed.errors import PreflightRefused
from testbed.network.paths import compute_paths
from testbed.plan.model import LARGEST_TIME_SCALE, RunPlan

SCALES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, int(LARGEST_TIME_SCALE))
"""Time scales that are chosen automatically: round numbers in steps of a third to two thirds."""
MARGIN = 1.1
"""Reserve for the error of an estimate."""
_FIRST_TIMEOUT_S = 1.0
"""TCP sends the first packet of a connection again after this, by the host's clock."""
_LONGEST_ROUND_TRIP_S = 60.0
"""A listening socket drops a connection request 63 s after its first answer, by the host's clock."""


def smallest_scale(demand_bytes_s: float, carried_bytes_s: float) -> float:
    """The smallest of `SCALES` with which the peak can be carried; the largest if none is enough."""
    needed = demand_bytes_s * MARGIN / carried_bytes_s
    return float(next((scale for scale in SCALES if scale >= needed), SCALES[-1]))


def late_for_tcp(plan: RunPlan) -> Iterator[str]:
    """A warning if long paths make the kernel repeat packets that are not lost."""
    if plan.time_scale == 1.0:
        return
    longest_s = _longest_round_trip_s(plan)
    if longest_s * plan.time_scale <= _FIRST_TIMEOUT_S:
        return
    fitting = math.floor(_FIRST_TIMEOUT_S / longest_s * 10) / 10
    instead = f"; it would not up to --time-scale {fitting:g}" if fitting > 1 else ""
    yield (
        f"at time scale {plan.time_scale:g} round trips take up to {longest_s * plan.time_scale:.1f} s of real time: "
        f"TCP asks for such connections more than once{instead}"
    )


def refuse_too_late_for_tcp(plan: RunPlan) -> None:
    """Raises PreflightRefused if the time scale makes a path so slow that no connection can be established."""
    if plan.time_scale == 1.0:
        return
    longest_s = _longest_round_trip_s(plan)
    if longest_s * plan.time_scale <= _LONGEST_ROUND_TRIP_S:
        return
    fitting = math.floor(_LONGEST_ROUND_TRIP_S / longest_s * 10) / 10
    raise PreflightRefused(
        f"at time scale {plan.time_scale:g} round trips take up to {longest_s * plan.time_scale:.0f} s of real time: "
        f"above {_LONGEST_ROUND_TRIP_S:g} s the kernel gives up connections before they are there",
        f"take --time-scale {fitting:g} at most" if fitting > 1 else "take --time-scale 1, or shorter ways",
    )


def largest_scale(plan: RunPlan) -> float:
    """The largest of `SCALES` at which connections over the plan's longest path still work; at least 1."""
    longest_s = _longest_round_trip_s(plan)
    return float(max(scale for scale in SCALES if scale == 1 or scale * longest_s <= _LONGEST_ROUND_TRIP_S))


def _longest_round_trip_s(plan: RunPlan) -> float:
    """The longest round trip in emulated time, among nodes with a path at the start."""
    latency_ms = compute_paths(plan.expanded_network()).latency_ms
    round_trips_ms = latency_ms + latency_ms.T
    return float(np.max(round_trips_ms, initial=0.0, where=np.isfinite(round_trips_ms))) / 1000
