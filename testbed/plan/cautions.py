"""Warnings about valid experiments that are likely to behave unexpectedly.

Takes an experiment, its topology and where it comes from, gives warnings; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.errors import Finding, warning
from testbed.experiment.language import Experiment
from testbed.topologies.model import NodeAction, NodeEvent, Topology
from testbed.units import format_duration

_SILENT = (NodeAction.CRASH, NodeAction.LEAVE)
"""Events after which a node sends nothing any more."""


def with_missing_default(
    experiment: Experiment, topology: Topology, *, own_code_waits: bool | None = None
) -> Experiment:
    """The experiment with the default of `missing.then`.

    `skip` if events take nodes away, or if the algorithm waits for no other node, so that a dead one could only keep
    messages from being sent; else `wait`. `own_code_waits`: what an algorithm that is not built in declares.
    """
    if "then" in experiment.missing.model_fields_set:
        return experiment
    if _waits(experiment, own_code_waits) and first_to_go(experiment, topology) is None:
        return experiment
    return experiment.model_copy(update={"missing": experiment.missing.model_copy(update={"then": "skip"})})


def _waits(experiment: Experiment, own_code_waits: bool | None) -> bool:
    """Whether nodes wait for others, as far as it is known: those with a server always do, for its answers."""
    algorithm = experiment.algorithm
    facts = ALGORITHMS.get(algorithm.name)
    if facts is None:
        return own_code_waits is not False
    return facts.needs_server or facts.exchange(algorithm.options).waits


def cautions(experiment: Experiment, topology: Topology) -> Iterator[Finding]:
    """Warnings about the topology's file."""
    chosen = with_missing_default(experiment, topology)
    if chosen.missing.then == "wait" and (event := first_to_go(experiment, topology)):
        what = "crash" if event.action is NodeAction.CRASH else "leave"
        yield warning(
            "waits-for-ever",
            f"from {format_duration(event.when.at_s)} on nodes {what}, and with `missing.then: wait` "
            "nodes that need their messages wait until they are back",
            "if the run lasts that long, say --set missing.then=skip and --set missing.after=2s, or so",
            event.where,
        )


def first_to_go(experiment: Experiment, topology: Topology) -> NodeEvent | None:
    """The first event within the run's time that silences nodes."""
    stop_s = experiment.stop.time_s
    events = [
        event
        for event in topology.events
        if isinstance(event, NodeEvent) and event.action in _SILENT and (stop_s is None or event.when.at_s < stop_s)
    ]
    return min(events, key=lambda event: event.when.at_s, default=None)
