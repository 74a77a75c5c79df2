"""The roles of nodes: which ones learn, which one serves, which one draws the peers.

Takes an experiment and a topology, gives `NodeRoles`, or findings at places in the experiment.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.code import is_code
from testbed.errors import did_you_mean
from testbed.experiment.language import Experiment
from testbed.experiment.origin import OriginReport
from testbed.plan.model import Role
from testbed.topologies.model import Topology
from testbed.units import shown


@dataclass(frozen=True)
class NodeRoles:
    """Ranks by role."""

    learners: tuple[int, ...]
    server: int | None
    sampler: int | None

    def of(self, rank: int) -> tuple[Role, ...]:
        roles: list[Role] = []
        if rank == self.server:
            roles.append("server")
        else:
            roles.append("learner")
        if rank == self.sampler:
            roles.append("sampler")
        return tuple(roles)


def assign_roles(experiment: Experiment, topology: Topology, report: OriginReport) -> NodeRoles:
    """Assigns the roles; reports names of nodes that do not exist."""
    algorithm, overlay = experiment.algorithm, experiment.overlay
    facts = ALGORITHMS.get(algorithm.name)
    served = facts is not None and facts.needs_server
    server = None
    if algorithm.server is not None and not served and not is_code(algorithm.name):
        report.complain("server", f"{algorithm.name} has no server", "remove it", "algorithm", "server")
    elif algorithm.server is not None:
        server = _node(algorithm.server, topology, report, "algorithm", "server")
    elif served:
        server = 0
    sampler = None
    if overlay.sampler is not None and overlay.peers != "sampler":
        report.complain("sampler", "no node asks it", "add `peers: sampler` and `dynamic: true`", "overlay", "sampler")
    elif overlay.peers == "sampler" and overlay.sampler is not None:
        sampler = _node(overlay.sampler, topology, report, "overlay", "sampler")
    elif overlay.peers == "sampler" and not served:
        sampler = 0
    learners = tuple(node.rank for node in topology.nodes if node.rank != server)
    if not learners:
        message = "the server is the only node" if topology.nodes else "the topology has no nodes"
        report.complain("no-learners", message, "give a service more replicas", "topology")
    return NodeRoles(learners, server, sampler)


def _node(name: str, topology: Topology, report: OriginReport, *place: str) -> int | None:
    if name not in topology.ranks:
        hint = report.findings.suggest(name, topology.ranks) or did_you_mean(name, [])
        report.complain("unknown-node", f"there is no node {shown(name)}", hint, *place)
    return topology.ranks.get(name)
