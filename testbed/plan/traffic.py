"""What a round of a plan is like: sizes of messages, their number, local steps, and what had to be assumed.

Takes a `RunPlan`; pure. Facts of built-in code are in the catalogue; facts that an experiment's own code declares are
in the plan's `declared`. If it declares nothing, all nodes are assumed to exchange whole models with all neighbours,
and `assumptions` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from testbed.catalogue.algorithms import ALGORITHMS, exchange_of
from testbed.catalogue.exchanges import Exchange, InTurns, Partners, Sender, Sent, WithPeers
from testbed.catalogue.sharings import SHARINGS, whole_model_bytes
from testbed.plan.model import Declared, RunPlan
from testbed.plan.overlay_graph import dynamic_graph
from testbed.seeds import stream

HEADER_BYTES = 60
"""Approximate metadata of a message."""
CONTROL_BYTES = 40
_SHUFFLE_BYTES = 34
"""Of a message with a part of a view, without its entries."""
_SILENT = Declared(waits=None, sends_to=None, message_bytes=None)


def message_bytes(plan: RunPlan) -> int | None:
    """The size of a message with a model in this plan's sharing; None if unknown."""
    sharing = plan.experiment.sharing
    facts = SHARINGS.get(sharing.name)
    if plan.parameters is None:
        return None
    size = _declared(plan).message_bytes if facts is None else facts.message_bytes(plan.parameters, sharing.options)
    return None if size is None else size + HEADER_BYTES


def sent_bytes(plan: RunPlan, sort: Sent) -> int:
    """The size of a message of this sort, of a model whose size is known; if the sharing declares none, a whole one."""
    if not sort.part:
        return CONTROL_BYTES
    if plan.parameters is None:
        raise ValueError("the model's size is unknown")
    known = message_bytes(plan) if sort.shared else None
    whole = whole_model_bytes(plan.parameters, {}) if known is None else known - HEADER_BYTES
    return round(sort.part * whole) + HEADER_BYTES


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


def messages_in(plan: RunPlan) -> tuple[Sent, ...]:
    """The sorts of messages of a round of this plan."""
    algorithm = plan.experiment.algorithm
    facts, degree = ALGORITHMS.get(algorithm.name), _mean_degree(plan)
    if facts is not None:
        return facts.messages(algorithm.options, len(plan.learners), degree)
    to = _declared(plan).sends_to
    count = min(to, degree) if isinstance(to, int) else degree
    return (Sent("a model", Sender.LEARNER, count, is_drawn=False, answers=False, part=1.0, shared=True),)


def neighbours_in(plan: RunPlan, round_: int) -> Mapping[int, tuple[int, ...]]:
    """The overlay's neighbours of each learner in a round, as ranks; none where the overlay is not asked."""
    learners, overlay = plan.learners, plan.overlay
    if overlay.neighbours is not None:
        return dict(zip(learners, overlay.neighbours, strict=True))
    if overlay.views is not None:
        return {rank: _drawn_for(plan, rank, round_) for rank in learners}
    exchange = exchange_in(plan)
    if isinstance(exchange, InTurns) or (isinstance(exchange, WithPeers) and exchange.partners is Partners.ANY):
        return dict.fromkeys(learners, ())
    drawn = dynamic_graph(overlay, len(learners), plan.seed, round_)
    return {rank: tuple(learners[other] for other in others) for rank, others in zip(learners, drawn, strict=True)}


def shuffled_bytes_s(plan: RunPlan) -> float:
    """Bytes of messages with parts of views that all learners send in a second; 0 without views."""
    views, learners = plan.overlay.views, plan.learners
    if views is None or not views.size:
        return 0.0
    # A rank takes one byte more with every byte that it has beyond 7 bits, an age one.
    entry_bytes = 1 + sum(1 + (rank > 127) + (rank > 255) for rank in learners) / len(learners)
    return 2 * len(learners) / views.period_s * (_SHUFFLE_BYTES + views.shuffle * entry_bytes)


def steps_per_round(plan: RunPlan) -> int:
    """Local steps of a node between two exchanges; with epochs, of the node with the median part of the data."""
    training, facts = plan.experiment.training, ALGORITHMS.get(plan.experiment.algorithm.name)
    if facts is not None and facts.local_steps is not None:
        return facts.local_steps
    if training.steps is not None:
        return training.steps
    samples = median(plan.samples) if plan.samples else training.batch
    return (training.epochs or 1) * max(1, int(samples // training.batch))


def _drawn_for(plan: RunPlan, rank: int, round_: int) -> tuple[int, ...]:
    """Neighbours from a view, which are as good as random ones among all."""
    others = [other for other in plan.learners if other != rank]
    random = stream(plan.seed, "estimate", "view", str(round_), str(rank))
    return tuple(sorted(random.sample(others, plan.overlay.degree or 0)))


def _declared(plan: RunPlan) -> Declared:
    return plan.declared or _SILENT


def _mean_degree(plan: RunPlan) -> float:
    """The mean number of neighbours, or of recipients that each node draws."""
    if plan.overlay.neighbours is None and plan.overlay.degree is not None:
        return plan.overlay.degree
    neighbours = neighbours_in(plan, 0)
    return sum(map(len, neighbours.values())) / max(1, len(neighbours))
