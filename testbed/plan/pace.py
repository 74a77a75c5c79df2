"""How fast every node computes: its service's speed, and the experiment's factors.

Takes an experiment and a topology, gives for every node the factors of its step time, with the times from which they
hold.
"""

from __future__ import annotations

from testbed.experiment.language import Experiment, SpeedFactor
from testbed.experiment.origin import OriginReport
from testbed.seeds import stream
from testbed.topologies.model import Topology
from testbed.units import shown

Pace = tuple[tuple[float, float], ...]


def plan_pace(experiment: Experiment, topology: Topology, report: OriginReport) -> list[Pace]:
    """Factors by rank. If several name a node, the last one counts; a service's speed multiplies it."""
    factors: dict[int, Pace] = {}
    for number, entry in enumerate(experiment.compute.factors):
        for rank in _ranks(entry, number, experiment.seed, topology, report):
            factors[rank] = _of_node(entry, number, experiment.seed, topology.nodes[rank].name)
    plain: Pace = ((0.0, 1.0),)
    return [
        tuple((from_s, factor / node.service.speed) for from_s, factor in factors.get(node.rank, plain))
        for node in topology.nodes
    ]


def _ranks(entry: SpeedFactor, number: int, seed: int, topology: Topology, report: OriginReport) -> list[int]:
    if entry.share is not None:
        count = round(entry.share * len(topology.nodes))
        return sorted(stream(seed, "compute", str(number)).sample(range(len(topology.nodes)), count))
    found: set[int] = set()
    for selector in entry.nodes or ():
        ranks = topology.select(selector)
        if not ranks:
            known = [*(service.name for service in topology.services if not service.supervisor), *topology.ranks]
            hint = report.findings.suggest(selector, known)
            place = ("compute", "factors", number, "nodes")
            report.complain("unknown-node", f"{shown(selector)} names no node", hint, *place)
        found.update(ranks)
    return sorted(found)


def _of_node(entry: SpeedFactor, number: int, seed: int, name: str) -> Pace:
    if entry.factor is not None:
        return ((0.0, entry.factor),)
    if entry.between is not None:
        return ((0.0, stream(seed, "compute", str(number), name).uniform(*entry.between)),)
    trace = entry.trace
    assert isinstance(trace, tuple)  # noqa: S101 - files of traces are read with the experiment
    return trace if trace[0][0] == 0 else ((0.0, 1.0), *trace)
