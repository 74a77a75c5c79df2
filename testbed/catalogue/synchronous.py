"""Algorithms without a server in which nodes wait for each other in every round: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, Partners, Sender, Sent, WithPeers, models
from testbed.catalogue.options import Option, Type, Values, number, number_or_none


def _with_all_neighbours(_options: Values) -> Exchange:
    return WithPeers(Partners.NEIGHBOURS, fanout=None, waits=True, pause_s=None, tells_others=False)


def _one_to_each(_options: Values, _learners: int, degree: float) -> tuple[Sent, ...]:
    return (models("a model to each neighbour", degree),)


def _with_drawn_peers(options: Values) -> Exchange:
    fanout = number_or_none(options, "fanout")
    oracle, end = options["mode"] == "oracle", options["round_end"]
    return WithPeers(
        Partners.REGULAR if oracle else Partners.ANY,
        fanout=None if fanout is None else int(fanout),
        waits=oracle or end == "notify",  # otherwise a node may be one that no other has drawn
        pause_s=number(options, "timeout") if not oracle and end == "timeout" else None,
        tells_others=not oracle and end == "notify",
    )


def _to_drawn_peers(options: Values, learners: int, degree: float) -> tuple[Sent, ...]:
    sent = models("a model to each of `fanout` nodes", degree)
    if options["mode"] == "oracle" or options["round_end"] != "notify":
        return (sent,)
    others = learners - 1 - degree
    note = "a note to each other node"
    return sent, Sent(note, Sender.LEARNER, others, is_drawn=False, answers=False, part=0.0, shared=False)


DPSGD = AlgorithmFacts(
    name="dpsgd",
    code=f"{PACKAGE}.dpsgd:DPSGD",
    summary="train, exchange models with all neighbours, average",
    options=(),
    paper=Paper(
        authors="Lian et al.",
        title="Can Decentralized Algorithms Outperform Centralized Algorithms?",
        venue="NeurIPS",
        year=2017,
        arxiv="1705.09056",
    ),
    local_steps=None,
    exchange=_with_all_neighbours,
    messages=_one_to_each,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=None,
    mutual=True,
    same_neighbours=False,
    waits_for="the models of all neighbours, of the same round",
    remembers="nothing",
    crash_costs="its neighbours wait as `missing` says",
)

EPIDEMIC = AlgorithmFacts(
    name="epidemic",
    code=f"{PACKAGE}.epidemic:Epidemic",
    summary="epidemic learning: train, send to a few random nodes, average what arrives",
    options=(
        Option(
            "mode",
            ("oracle", "local"),
            "oracle",
            "A random regular graph every round, or every node draws its recipients.",
        ),
        Option("fanout", Type.POSITIVE, None, "To how many a node sends; log2 of their number, rounded up."),
        Option(
            "round_end",
            ("notify", "timeout", "expected"),
            "expected",
            "With `mode: local`: how a node knows that nothing more comes.",
        ),
        Option("timeout", Type.DURATION, 1.0, "With `round_end: timeout`: how long to wait after sending."),
    ),
    paper=Paper(
        authors="De Vos et al.",
        title="Epidemic Learning: Boosting Decentralized Learning with Randomized Communication",
        venue="NeurIPS",
        year=2023,
        arxiv="2310.01972",
    ),
    local_steps=None,
    exchange=_with_drawn_peers,
    messages=_to_drawn_peers,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=None,
    mutual=False,
    same_neighbours=False,
    waits_for="the models that are on their way to it in this round; with `round_end: timeout`, a fixed time",
    remembers="nothing",
    crash_costs="its recipients wait as `missing` says; with `round_end: timeout`, nothing",
)
