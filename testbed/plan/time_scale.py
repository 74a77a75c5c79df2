"""How much longer than planned a run has to take in real time, so that a machine carries what its nodes send.

Takes figures, or a plan, gives a time scale, or words; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from testbed.network.graph import expand
from testbed.network.paths import compute_paths
from testbed.plan.model import LARGEST_TIME_SCALE, RunPlan

SCALES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, int(LARGEST_TIME_SCALE))
"""Those that are taken by themselves: steps of a third to two thirds, as numbers that people write."""
MARGIN = 1.1
"""How much more than it needs a machine must carry: an estimate is one."""
_FIRST_TIMEOUT_S = 1.0
"""TCP sends the first packet of a connection again after this, by the host's clock."""


def smallest_scale(demand_bytes_s: float, carried_bytes_s: float) -> float:
    """The smallest of `SCALES` with which so much can be carried; the largest where none is enough."""
    needed = demand_bytes_s * MARGIN / carried_bytes_s
    return float(next((scale for scale in SCALES if scale >= needed), SCALES[-1]))


def late_for_tcp(plan: RunPlan) -> Iterator[str]:
    """A warning where the kernel will think that packets are lost which are only on their long way."""
    if plan.time_scale == 1.0:
        return
    latency_ms = compute_paths(expand(plan.load_topology())).latency_ms
    round_trips_ms = latency_ms + latency_ms.T
    longest_s = float(np.max(round_trips_ms, initial=0.0, where=np.isfinite(round_trips_ms))) / 1000
    if longest_s * plan.time_scale <= _FIRST_TIMEOUT_S:
        return
    fitting = math.floor(_FIRST_TIMEOUT_S / longest_s * 10) / 10
    instead = f"; it would not up to --time-scale {fitting:g}" if fitting > 1 else ""
    yield (
        f"at time scale {plan.time_scale:g} round trips take up to {longest_s * plan.time_scale:.1f} s of real time: "
        f"TCP asks for such connections more than once{instead}"
    )
