"""Algorithms in which only some learners work in a round: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, InTurns, Sender, Sent
from testbed.catalogue.options import Option, Type, Values, number


def _teleported(options: Values) -> Exchange:
    active = int(number(options, "active"))
    return InTurns(active=active, meets=_neighbours(options, active), collected=False)


def _teleported_models(options: Values, learners: int, _degree: float) -> tuple[Sent, ...]:
    active = min(int(number(options, "active")), learners)
    elsewhere = active * (1 - 1 / learners)  # a node may be the one of its position in the next round, too
    return (
        _by_some(
            "a model from each active node to one of the next round", elsewhere / learners, part=1.0, shared=False
        ),
        _by_some("a note back that it was handed on", elsewhere / learners, part=0.0, shared=False),
        Sent(
            "a model to each neighbour of the position",
            Sender.LEARNER,
            active * _neighbours(options, active) / learners,
            is_drawn=False,
            answers=False,
            part=1.0,
            shared=True,
        ),
    )


def _by_some(what: str, count: float, *, part: float, shared: bool) -> Sent:
    return Sent(what, Sender.LEARNER, count, is_drawn=True, answers=False, part=part, shared=shared)


def _neighbours(options: Values, active: int) -> int:
    return active - 1 if options["graph"] == "full" else min(2, active - 1)


TELEPORTATION = AlgorithmFacts(
    name="teleportation",
    code=f"{PACKAGE}.teleportation:Teleportation",
    summary="a few nodes are active in a round: train the models of the last ones, average, pass on",
    options=(
        Option("active", Type.POSITIVE, 4, "How many nodes work in a round."),
        Option("graph", ("ring", "full"), "ring", "The graph over the active nodes in which they average."),
    ),
    paper=Paper(
        authors="Takezawa and Stich",
        title="Scalable Decentralized Learning with Teleportation",
        venue="ICLR",
        year=2025,
        arxiv="2501.15259",
    ),
    local_steps=None,
    exchange=_teleported,
    messages=_teleported_models,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=("full", "random"),
    mutual=False,
    same_neighbours=False,
    waits_for="the model of its next turn; in a turn, the models of its neighbours among the active nodes",
    remembers="the round and position of its last turn",
    crash_costs="in its turn: its model waits for twice as long as `missing` says; otherwise nothing",
)
