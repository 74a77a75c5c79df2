"""The connections that are opened before emulated time begins.

Takes plans, gives ranks; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.plan.files import split
from testbed.plan.model import NodePlan, RunPlan
from testbed.topologies.event_checks import starting_absent


def first_connections(plan: RunPlan) -> Iterator[tuple[int, int]]:
    """All of a run, as origin and destination, ascending: between nodes that are there from the start."""
    absent = starting_absent(plan.load_topology())
    for share in split(plan):
        if share.node.rank not in absent:
            yield from ((share.node.rank, peer) for peer in first_peers(share) if peer not in absent)


def first_peers(plan: NodePlan) -> tuple[int, ...]:
    """The peers that a node certainly sends to, ascending; with a changing graph only the peer sampler."""
    own = plan.node.rank
    peers = set(plan.neighbours or ())
    if plan.server is not None:
        peers = set(plan.learners) if plan.server == own else {plan.server}
    sampler = plan.overlay.sampler
    if plan.overlay.dynamic and plan.overlay.peers == "sampler" and sampler is not None:
        peers |= set(plan.learners) if sampler == own else {sampler}
    return tuple(sorted(peers - {own}))
