"""AD-PSGD, and what DivShare's authors compare with under this name: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, Partners, Sender, Sent, WithPeers, to_drawn_nodes
from testbed.catalogue.fragmented import PAPER
from testbed.catalogue.options import Option, Type, Values, number_or_none


def _with_one_neighbour(_options: Values) -> Exchange:
    return WithPeers(Partners.NEIGHBOURS, fanout=1, waits=False, pause_s=0.0, tells_others=False)


def _half_of_them_ask(options: Values, learners: int, _degree: float) -> tuple[Sent, ...]:
    """About half of the nodes ask; with `free` as often as the network allows, of which a plan knows nothing: once."""
    each = options["exchanges_per_iter"]
    count = (each if isinstance(each, int) else 1) * ((learners + 1) // 2) / learners if learners > 1 else 0.0
    return (
        Sent(
            "a model of each active node", Sender.LEARNER, count, is_drawn=True, answers=False, part=1.0, shared=False
        ),
        Sent("a model as the answer", Sender.LEARNER, count, is_drawn=True, answers=True, part=1.0, shared=False),
    )


def _with_pinged_nodes(options: Values) -> Exchange:
    return to_drawn_nodes(options, "fanout")


def _pings_and_pongs(options: Values, _learners: int, degree: float) -> tuple[Sent, ...]:
    fanout = number_or_none(options, "fanout")
    pings = max(1, int(degree if fanout is None else fanout) // 2)
    return (
        Sent("a ping with a model", Sender.LEARNER, pings, is_drawn=False, answers=False, part=1.0, shared=True),
        Sent("a pong with a model", Sender.LEARNER, pings, is_drawn=True, answers=True, part=1.0, shared=True),
    )


ADPSGD = AlgorithmFacts(
    name="adpsgd",
    code=f"{PACKAGE}.adpsgd:ADPSGD",
    summary="train, and meanwhile average with one neighbour at a time; never wait",
    options=(
        Option(
            "exchanges_per_iter",
            Type.POSITIVE_OR_FREE,
            1,
            "How many exchanges an active node begins in a round; `free`: as many as the network allows.",
        ),
        Option("timeout", Type.DURATION, 10.0, "After that time without an answer, the same request is sent again."),
    ),
    paper=Paper(
        authors="Lian et al.",
        title="Asynchronous Decentralized Parallel Stochastic Gradient Descent",
        venue="ICML",
        year=2018,
        arxiv="1710.06952",
    ),
    local_steps=None,
    exchange=_with_one_neighbour,
    messages=_half_of_them_ask,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=("full",),
    mutual=True,
    same_neighbours=True,
    waits_for="nothing; at its end for open exchanges, and passive nodes until their active neighbours have finished",
    remembers="exchanges without an answer; passive nodes the last answer to each active neighbour",
    crash_costs="its neighbours a timeout; at their end they wait for it as long as for any silent peer",
)

ADPSGD_PUSHPULL = AlgorithmFacts(
    name="adpsgd-pushpull",
    code=f"{PACKAGE}.adpsgd_pushpull:PushPull",
    summary="train, push the model to a few random nodes, which send theirs back, average what has come; never wait",
    options=(
        Option(
            "fanout",
            Type.POSITIVE,
            None,
            "How many models a node sends, half of them as answers; log2 of the nodes, rounded up.",
        ),
    ),
    paper=PAPER,
    local_steps=None,
    exchange=_with_pinged_nodes,
    messages=_pings_and_pongs,
    outbox=OutboxFacts("flush", in_flight=None),
    sharings=None,
    mutual=False,
    same_neighbours=False,
    waits_for="nothing",
    remembers="the model of its last training; not after a crash",
    crash_costs="nothing: what is sent to it is lost",
)
