"""The messages of a round: recipients, sizes, and what nodes wait for.

Takes a `RunPlan`, gives messages and their sizes; pure. Facts of built-in code are in the catalogue; facts that an
experiment's own code declares are in the plan's `declared`. If it declares nothing, all nodes are assumed to exchange
whole models with all neighbours, and `assumptions` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from testbed.catalogue.algorithms import ALGORITHMS, Exchange, Partners, WithPeers, WithServer, exchange_of
from testbed.catalogue.sharings import SHARINGS, whole_model_bytes
from testbed.plan.model import Declared, RunPlan
from testbed.plan.overlay_graph import dynamic_graph
from testbed.plan.rehearse import Messages, Peers, Served
from testbed.plan.shares import part_of
from testbed.seeds import stream

HEADER_BYTES = 60
"""Approximate metadata of a message."""
CONTROL_BYTES = 40
_SILENT = Declared(waits=None, sends_to=None, message_bytes=None)


@dataclass(frozen=True)
class Traffic:
    """Messages of one round: sender, recipient and bytes; those of one phase are sent at the same time."""

    phases: tuple[tuple[tuple[int, int], ...], ...]
    size: int
    control: int = 0
    """Bytes of small messages in all."""


def message_bytes(plan: RunPlan) -> int | None:
    """The size of a message with a model in this plan's sharing; None if unknown."""
    sharing = plan.experiment.sharing
    facts = SHARINGS.get(sharing.name)
    if plan.parameters is None:
        return None
    size = _declared(plan).message_bytes if facts is None else facts.message_bytes(plan.parameters, sharing.options)
    return None if size is None else size + HEADER_BYTES


def assumed_message_bytes(plan: RunPlan) -> int | None:
    """`message_bytes`, or a whole model if the sharing declares none; None only if the model's size is unknown."""
    known = message_bytes(plan)
    if known is not None or plan.parameters is None:
        return known
    return whole_model_bytes(plan.parameters, {}) + HEADER_BYTES


def assumptions(plan: RunPlan) -> tuple[str, ...]:
    """Assumptions about the experiment's own code that figures rest on, as clauses."""
    declared, is_own = _declared(plan), plan.experiment.algorithm.name not in ALGORITHMS
    told = []
    if is_own and declared.sends_to is None:
        told.append("all send to all neighbours every round")
    if is_own and declared.waits is None:
        told.append("all wait for those that send to them")
    if plan.experiment.sharing.name not in SHARINGS and declared.message_bytes is None:
        told.append("whole models are sent")
    return tuple(told)


def exchange_in(plan: RunPlan) -> Exchange:
    """The exchange of a round of this plan, as far as it is known."""
    algorithm = plan.experiment.algorithm
    known = exchange_of(algorithm.name, algorithm.options)
    if known is not None:
        return known
    declared = _declared(plan)
    waits = declared.waits is not False
    return WithPeers(
        Partners.NEIGHBOURS,
        fanout=declared.sends_to if isinstance(declared.sends_to, int) else None,
        waits=waits,
        pause_s=None if waits else 0.0,
        tells_others=False,
    )


def steps_per_round(plan: RunPlan) -> int:
    """Local steps of a node between two exchanges; with epochs, of the node with the median part of the data."""
    training, facts = plan.experiment.training, ALGORITHMS.get(plan.experiment.algorithm.name)
    if facts is not None and facts.local_steps is not None:
        return facts.local_steps
    if training.steps is not None:
        return training.steps
    samples = median(plan.samples) if plan.samples else training.batch
    return (training.epochs or 1) * max(1, int(samples // training.batch))


def parts_of(plan: RunPlan, size: int) -> Peers | Served:
    """The messages of all rounds, to be rehearsed."""
    exchange = exchange_in(plan)
    if isinstance(exchange, WithServer) and plan.server is not None:
        wanted, asked = _clients(plan, exchange)
        return Served(
            plan.server,
            lambda round_: _asked(plan, asked, round_),
            wanted,
            size,
            deadline_s=exchange.deadline_s,
            at_once=not exchange.waits,
        )
    assert isinstance(exchange, WithPeers)  # noqa: S101 - a plan of one with a server has that
    return Peers(
        lru_cache(maxsize=None)(lambda round_: _recipients(plan, exchange, round_)),
        size,
        sampler=plan.overlay.sampler,
        notes=exchange.tells_others,
        wait_s=exchange.pause_s,
        control_size=CONTROL_BYTES,
    )


def traffic_of(plan: RunPlan, size: int) -> Traffic:
    """The messages of one round."""
    exchange, count = exchange_in(plan), len(plan.learners)
    if isinstance(exchange, WithServer) and plan.server is not None:
        _, asked = _clients(plan, exchange)
        down = tuple((plan.server, rank) for rank in _asked(plan, asked, 0))
        return Traffic((down, tuple((rank, server) for server, rank in down)), size)
    assert isinstance(exchange, WithPeers)  # noqa: S101 - as above
    recipients = _recipients(plan, exchange, 0)
    pairs = tuple((rank, other) for rank in plan.learners for other in recipients[rank])
    notes = count * (count - 1) - len(pairs) if exchange.tells_others else 0
    questions = 2 * count if plan.overlay.sampler is not None else 0
    return Traffic((pairs,), size, (notes + questions) * CONTROL_BYTES)


def _declared(plan: RunPlan) -> Declared:
    return plan.declared or _SILENT


def _clients(plan: RunPlan, exchange: WithServer) -> tuple[int, int]:
    """The number of answers that the server waits for in a round, and of clients that it asks."""
    wanted = part_of(len(plan.learners), exchange.participation)
    return wanted, min(len(plan.learners), part_of(wanted, exchange.over_selection))


def _asked(plan: RunPlan, count: int, round_: int) -> tuple[int, ...]:
    return tuple(sorted(stream(plan.seed, "estimate", str(round_)).sample(plan.learners, count)))


def _recipients(plan: RunPlan, exchange: WithPeers, round_: int) -> Messages:
    """The recipients of each learner's model in a round."""
    if exchange.partners is Partners.ANY:
        others = {rank: tuple(other for other in plan.learners if other != rank) for rank in plan.learners}
        return _some_of(plan, others, plan.overlay.degree or 0, round_)
    neighbours = _neighbours(plan, round_)
    if exchange.draws or exchange.fanout is None:
        return neighbours
    return _some_of(plan, neighbours, exchange.fanout, round_)


def _neighbours(plan: RunPlan, round_: int) -> Messages:
    learners, overlay = plan.learners, plan.overlay
    if overlay.neighbours is not None:
        return dict(zip(learners, overlay.neighbours, strict=True))
    drawn = dynamic_graph(overlay, len(learners), plan.seed, round_)
    return {rank: tuple(learners[other] for other in others) for rank, others in zip(learners, drawn, strict=True)}


def _some_of(plan: RunPlan, among: Messages, count: int, round_: int) -> Messages:
    found = {}
    for rank, others in among.items():
        random = stream(plan.seed, "estimate", str(round_), str(rank))
        found[rank] = tuple(sorted(random.sample(others, min(count, len(others)))))
    return found
