"""How much longer than planned a run has to take in real time, so that a machine carries what its nodes send.

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
"""Those that are taken by themselves: steps of a third to two thirds, as numbers that people write."""
MARGIN = 1.1
"""How much more than it needs a machine must carry: an estimate is one."""
_FIRST_TIMEOUT_S = 1.0
"""TCP sends the first packet of a connection again after this, by the host's clock."""
_LONGEST_ROUND_TRIP_S = 60.0
"""Whoever is asked for a connection forgets it 63 s after its first answer, by the host's clock."""


def smallest_scale(demand_bytes_s: float, carried_bytes_s: float) -> float:
    """The smallest of `SCALES` with which so much can be carried; the largest where none is enough."""
    needed = demand_bytes_s * MARGIN / carried_bytes_s
    return float(next((scale for scale in SCALES if scale >= needed), SCALES[-1]))


def late_for_tcp(plan: RunPlan) -> Iterator[str]:
    """A warning where the kernel will think that packets are lost which are only on their long way."""
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
    """Raises PreflightRefused where the time scale makes a way so long that no connection would ever come up."""
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
    """The largest of `SCALES` with which the kernel keeps up connections over the plan's longest way; 1 always does."""
    longest_s = _longest_round_trip_s(plan)
    return float(max(scale for scale in SCALES if scale == 1 or scale * longest_s <= _LONGEST_ROUND_TRIP_S))


def _longest_round_trip_s(plan: RunPlan) -> float:
    """Of emulated time, among nodes that reach each other at the start."""
    latency_ms = compute_paths(plan.expanded_network()).latency_ms
    round_trips_ms = latency_ms + latency_ms.T
    return float(np.max(round_trips_ms, initial=0.0, where=np.isfinite(round_trips_ms))) / 1000
