"""Algorithms in which only some learners work in a round: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, InTurns, Sender, Sent
from testbed.catalogue.options import Option, Type, Values, number


def _teleported(options: Values) -> Exchange:
    active = int(number(options, "active"))
    return InTurns(active=active, meets=_neighbours(options, active), collected=False, to_all=False, asks=False)


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


def _sampled(options: Values) -> Exchange:
    sample, to_all = int(number(options, "sample")), options["aggregate"] == "all"
    return InTurns(active=sample, meets=0, collected=not to_all, to_all=to_all, asks=True)


def _models_of_samples(options: Values, learners: int, _degree: float) -> tuple[Sent, ...]:
    sample = min(int(number(options, "sample")), learners)
    trained = sample / learners
    elsewhere = 1 - 1 / learners  # a node may be the one that it would send to
    if options["aggregate"] == "all":
        fragments, to = int(number(options, "fragments")), sample * elsewhere
        return (
            _by_some(
                "a ping and its answer, for each node of the next sample", 2 * trained * to, part=0.0, shared=False
            ),
            _by_some(
                "each fragment to all of the next sample", trained * to * fragments, part=1 / fragments, shared=False
            ),
        )
    others = (sample - 1) / learners  # the aggregator is one of the sample itself
    pings = 2 * (trained * elsewhere + others)
    return (
        _by_some("a ping or its answer", pings, part=0.0, shared=False),
        _by_some("a model from each node of the sample to the aggregator", trained * elsewhere, part=1.0, shared=False),
        _by_some("the mean from the aggregator to each of the next sample", others, part=1.0, shared=False),
        _by_some("a note back that it was aggregated", trained * elsewhere, part=0.0, shared=False),
    )


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

PLEXUS = AlgorithmFacts(
    name="plexus",
    code=f"{PACKAGE}.plexus:Plexus",
    summary="federated learning without a server: samples of nodes train, a node of the next one averages",
    options=(
        Option("sample", Type.POSITIVE, 13, "How many nodes train in a round; all if there are fewer."),
        Option("success_fraction", Type.SHARE, 0.8, "Part of the sample's models that is enough to go on."),
        Option("aggregate", ("one", "all"), "one", "An aggregator, or all of the next sample (Conflux)."),
        Option("fragments", Type.POSITIVE, 8, "With `aggregate: all`: into how many parts a model is cut."),
        Option("ping_timeout", Type.DURATION, 5.0, "How long to wait for the answer to a ping."),
        Option("inactivity", Type.POSITIVE, 50, "After how many rounds a node of which nothing is heard comes last."),
        Option("aggregation_timeout", Type.DURATION, 300.0, "How long to wait for models after the first."),
    ),
    paper=Paper(
        authors="Dhasade et al.",
        title="Practical Federated Learning without a Server",
        venue="EuroMLSys",
        year=2025,
        arxiv="2503.05509",
    ),
    local_steps=None,
    exchange=_sampled,
    messages=_models_of_samples,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=("full",),
    mutual=False,
    same_neighbours=False,
    waits_for="the model of a round that it is sampled for; its aggregator for enough models, or a time",
    remembers="the round of its model; the others' last rounds, not after a crash",
    crash_costs="a ping's timeout wherever it would be asked; of the aggregator: what it had collected",
)
