"""Warns if a run is likely to end before its first event.

Takes a plan, its topology and an estimate, gives warnings; touches nothing. Separate from `cautions`, which needs no
estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, log10
from statistics import median

from testbed.errors import Finding, warning
from testbed.plan.estimate import Estimate
from testbed.plan.model import RunPlan
from testbed.plan.traffic import steps_per_round
from testbed.topologies.model import Topology
from testbed.units import format_duration


def events_too_late(plan: RunPlan, topology: Topology, cost: Callable[[], Estimate]) -> Iterator[Finding]:
    """A warning about the topology's file if the run is likely to end before the first event.

    An estimate is slow: `cost` is called only if even a run that never waited for messages would end before the event.
    """
    first = min(topology.events, key=lambda event: event.when.at_s, default=None)
    if first is None or first.when.at_s < _at_least_s(plan, topology):
        return
    total_s = cost().total_s
    if total_s is None or first.when.at_s < total_s:
        return
    enough = _rounded_up(1.2 * max(event.when.until_s or event.when.at_s for event in topology.events))
    instead = " without a number of rounds" if plan.experiment.stop.rounds is not None else ""
    yield warning(
        "events-too-late",
        f"the first event happens at {format_duration(first.when.at_s)}, and the run takes about "
        f"{format_duration(float(f'{total_s:.2g}'))}",
        f"say --time {format_duration(enough)}{instead}, or a larger compute.ms_per_step",
        first.where,
    )


def _at_least_s(plan: RunPlan, topology: Topology) -> float:
    """A usual lower bound of the run's duration: its steps, and a message over one link in each round."""
    stop = plan.experiment.stop
    if stop.rounds is None:
        return 0.0 if stop.time_s is None else stop.time_s
    paces = [min(factor for _, factor in node.pace) for node in plan.nodes if node.learner is not None]
    latency_ms = median(link.properties.latency_ms for link in topology.links) if topology.links else 0.0
    rounds_s = stop.rounds * (steps_per_round(plan) * plan.ms_per_step * min(paces) + latency_ms) / 1e3
    return rounds_s if stop.time_s is None else min(rounds_s, stop.time_s)


def _rounded_up(seconds: float) -> float:
    """Rounded up to two digits."""
    digit = 10.0 ** (ceil(log10(max(seconds, 1.0))) - 2)
    return max(1.0, round(ceil(seconds / digit) * digit, 3))
