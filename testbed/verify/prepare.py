"""A topology as something to measure.

Takes a `Topology`, gives a `Plan` of what is measured and the configuration of a fabric that carries it; touches
nothing. What is measured is the network as it starts, with all its nodes: no event has happened yet, and those that
join later are there too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from testbed.engines.fabric.config import SCHEMA, FabricConfig, FabricNode
from testbed.errors import UsageProblem
from testbed.network.graph import expand
from testbed.network.moment import network_before
from testbed.plan.addresses import address
from testbed.plan.model import as_json
from testbed.topologies.model import NodeEvent, Topology
from testbed.verify.measure import Plan
from testbed.verify.needs import Effort
from testbed.verify.pairs import choose_pairs, find_shared


def plan_of(topology: Topology, count: int, seed: int, effort: Effort) -> Plan:
    """The extremes and others, and a shared bottleneck where there is one."""
    everybody = with_everybody(topology)
    network = network_before(everybody, expand(everybody))
    pairs = choose_pairs(network, count, seed)
    if not pairs:
        raise UsageProblem("no two nodes of this topology reach each other", "look at testbed paths")
    return Plan(pairs, find_shared(network, seed), effort)


def with_everybody(topology: Topology) -> Topology:
    """Nobody comes or goes."""
    stays = tuple(event for event in topology.events if not isinstance(event, NodeEvent))
    return replace(topology, events=stays)


def config_for(topology: Topology, seed: int, folder: Path) -> FabricConfig:
    """A fabric of this network whose sockets lie in that folder, which must have a short path."""
    return FabricConfig(
        schema=SCHEMA,
        topology_name=topology.name,
        topology=dict(as_json(with_everybody(topology))),
        seed=seed,
        nodes=tuple(FabricNode(node.name, address(node.rank)) for node in topology.nodes),
        sockets=str(folder),
        engine=str(folder / "engine"),
    )
