"""Prepares a topology for measuring.

Takes a `Topology`, gives a `Plan` of measurements and the configuration of a fabric; touches nothing. The network is
measured in its initial state with all its nodes: no event has happened yet, and nodes that join later are there too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from testbed.engines.fabric.config import AUTO, SCHEMA, FabricConfig, FabricNode
from testbed.errors import UsageProblem
from testbed.network.graph import Network, expand
from testbed.network.moment import network_before
from testbed.plan.addresses import address
from testbed.plan.model import as_json
from testbed.topologies.model import NodeEvent, Topology
from testbed.verify.pairs import choose_pairs, find_shared
from testbed.verify.plan import Plan, choose_change
from testbed.verify.sizing import Effort
from testbed.verify.tools import NO_TOOLS, Tools


def plan_of(topology: Topology, count: int, seed: int, effort: Effort, tools: Tools = NO_TOOLS) -> Plan:
    """Plans extreme and other pairs, and a shared bottleneck and a live change where the topology allows them."""
    static = without_node_events(topology)
    network = network_before(static, expand(static))
    pairs = choose_pairs(network, count, seed)
    if not pairs:
        raise UsageProblem("no two nodes of this topology reach each other", "look at testbed paths")
    change = choose_change(pairs, link_ends(network))
    return Plan(pairs, find_shared(network, seed), effort, change, tools)


def without_node_events(topology: Topology) -> Topology:
    """The same topology with all nodes present at all times."""
    stays = tuple(event for event in topology.events if not isinstance(event, NodeEvent))
    return replace(topology, events=stays)


def link_ends(network: Network) -> dict[int, tuple[str, str]]:
    """Names of the ends of those links that their ends identify: the only link between two nodes or bridges."""
    ends = [*zip(network.origin.tolist(), network.dest.tolist(), strict=True)]
    with_legs = {*network.declared[network.access_leg].tolist()}
    known = network.node_count + network.bridge_count
    between = Counter(ends)
    names = network.names
    return {
        link: (names[origin], names[dest])
        for link, (origin, dest) in enumerate(ends)
        if between[origin, dest] == 1 and max(origin, dest) < known and network.declared[link] not in with_legs
    }


def config_for(topology: Topology, seed: int, folder: Path, data_plane: str = AUTO) -> FabricConfig:
    """Configuration of a fabric whose sockets lie in `folder`, which must have a short path."""
    return FabricConfig(
        schema=SCHEMA,
        topology_name=topology.name,
        topology=dict(as_json(without_node_events(topology))),
        seed=seed,
        nodes=tuple(FabricNode(node.name, address(node.rank)) for node in topology.nodes),
        sockets=str(folder),
        engine=str(folder / "engine"),
        data_plane=data_plane,
    )
