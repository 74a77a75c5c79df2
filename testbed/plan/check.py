"""Checks a plan whose values all have the right types: the file may have been changed by hand.

Takes a `RunPlan`, gives findings that name its keys; touches nothing. Names become paths and ranks become indices, so
no later code has to check them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from testbed.errors import Finding, InvalidInput, error
from testbed.plan.addresses import why_not_a_node
from testbed.plan.model import PlannedNode, RunPlan
from testbed.topologies.model import Topology
from testbed.units import shown

MOST_FINDINGS = 20
VIRTUAL = "sim"


def check_plan(plan: RunPlan) -> list[Finding]:
    """All inconsistencies, up to a limit."""
    try:
        topology = plan.load_topology()
    except InvalidInput as problem:
        return [error("bad-plan", f"topology: {each.message}", each.hint) for each in problem.findings][:MOST_FINDINGS]
    except RecursionError:
        return [error("bad-plan", "topology: nested too deep")]
    told = [*islice(chain(_scale(plan), _nodes(plan, topology), _addresses(plan)), MOST_FINDINGS)]
    # The checks of ranks need a complete table of nodes.
    return [error("bad-plan", each) for each in told or islice(_relations(plan), MOST_FINDINGS)]


def _scale(plan: RunPlan) -> Iterator[str]:
    if plan.runtime == VIRTUAL and plan.time_scale != 1.0:
        yield f"time_scale: it is {plan.time_scale:g}, and in virtual time there is nothing to scale"


def _nodes(plan: RunPlan, topology: Topology) -> Iterator[str]:
    """Checks that the nodes are those of the topology."""
    if len(plan.nodes) != len(topology.nodes):
        yield f"nodes: there are {len(plan.nodes)}, the topology has {len(topology.nodes)}"
        return
    learner = 0
    for at, (node, meant) in enumerate(zip(plan.nodes, topology.nodes, strict=True)):
        for key, value, expected in (
            ("rank", node.rank, meant.rank),
            ("name", node.name, meant.name),
            ("service", node.service, meant.service.name),
            ("learner", node.learner, learner if "learner" in node.roles else None),
        ):
            if value != expected:
                yield f"nodes.{at}.{key}: it is {shown(str(value))}, it must be {shown(str(expected))}"
        learner += "learner" in node.roles
        yield from _pace(node)
    if not learner:
        yield "nodes: none of them learns"


def _addresses(plan: RunPlan) -> Iterator[str]:
    """Checks that every node has an address of its own in the emulated network."""
    owners: dict[str, str] = {}
    for at, node in enumerate(plan.nodes):
        key, whose = f"nodes.{at}.address", f"{shown(node.address)} of {shown(node.name)}"
        if (why := why_not_a_node(node.address)) is not None:
            yield f"{key}: {whose} {why}"
        elif (owner := owners.setdefault(node.address, node.name)) != node.name:
            yield f"{key}: {whose} is the address of {shown(owner)} already"


def _pace(node: PlannedNode) -> Iterator[str]:
    times = [from_s for from_s, _ in node.pace]
    if not times or times[0] != 0.0 or times != sorted(set(times)):
        yield f"nodes.{node.rank}.pace: its times must begin with 0 and ascend"
    if any(factor <= 0.0 for _, factor in node.pace):
        yield f"nodes.{node.rank}.pace: a factor must be above 0"


def _relations(plan: RunPlan) -> Iterator[str]:
    """Checks that references to nodes name nodes with the right role."""
    for key, rank, role in (("server", plan.server, "server"), ("overlay.sampler", plan.overlay.sampler, "sampler")):
        having = [node.rank for node in plan.nodes if role in node.roles]
        if having != ([] if rank is None else [rank]):
            yield f"{key}: it is {rank}, the nodes with the role `{role}` are {having}"
    if plan.samples is not None and len(plan.samples) != len(plan.learners):
        yield f"samples: {len(plan.samples)} entries for {len(plan.learners)} learners"
    yield from _neighbours(plan)
    yield from _views(plan)


def _neighbours(plan: RunPlan) -> Iterator[str]:
    table, learners = plan.overlay.neighbours, plan.learners
    if table is None:
        if not plan.overlay.dynamic:
            yield "overlay.neighbours: a static overlay needs them"
        return
    if len(table) != len(learners):
        yield f"overlay.neighbours: {len(table)} entries for {len(learners)} learners"
        return
    of = dict(zip(learners, map(frozenset, table), strict=True))
    for at, (rank, others) in enumerate(zip(learners, table, strict=True)):
        key = f"overlay.neighbours.{at}"
        if list(others) != sorted(of[rank]):
            yield f"{key}: ranks must ascend"
        for other in sorted(of[rank]):
            if other == rank:
                yield f"{key}: {rank} is its own neighbour"
            elif other != plan.server and other not in of:
                yield f"{key}: {other} is not the rank of a node that learns or serves"
            elif other in of and rank not in of[other]:
                yield f"{key}: {other} is a neighbour of {rank}, but not {rank} of {other}"


def _views(plan: RunPlan) -> Iterator[str]:
    if (plan.overlay.kind == "cyclon") != (plan.overlay.views is not None):
        yield "overlay.views: an overlay of the kind cyclon has them, and no other one"
