"""SWIFT, and what DivShare's authors compare with under this name: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import Exchange, Partners, Sent, WithPeers, models, to_drawn_nodes
from testbed.catalogue.fragmented import PAPER
from testbed.catalogue.options import Option, Type, Values, number_or_none


def _with_neighbours(_options: Values) -> Exchange:
    return WithPeers(Partners.NEIGHBOURS, fanout=None, waits=False, pause_s=0.0, tells_others=False)


def _to_neighbours(_options: Values, _learners: int, degree: float) -> tuple[Sent, ...]:
    return (models("a model to each neighbour", degree),)


def _with_recipients(options: Values) -> Exchange:
    return to_drawn_nodes(options, "recipients")


def _to_recipients(options: Values, _learners: int, degree: float) -> tuple[Sent, ...]:
    count = number_or_none(options, "recipients")
    return (models("a model to each of `recipients` nodes", degree if count is None else count),)


SWIFT = AlgorithmFacts(
    name="swift",
    code=f"{PACKAGE}.swift:Swift",
    summary="broadcast, train, average with the newest models of all neighbours; never wait",
    options=(
        Option("steps_between", Type.POSITIVE, 1, "Average in every iteration (1), in every second one (2), …"),
        Option("memory", Type.TRUTH, True, "Where no model has come, average with the neighbour's last one."),
        Option("boost", Type.TRUTH, False, "Where a model is missing, the others weigh more."),
    ),
    paper=Paper(
        authors="Bornstein et al.",
        title="SWIFT: Rapid Decentralized Federated Learning via Wait-Free Model Communication",
        venue="ICLR",
        year=2023,
        arxiv="2210.14026",
    ),
    local_steps=None,
    exchange=_with_neighbours,
    messages=_to_neighbours,
    outbox=OutboxFacts("latest", in_flight=None),
    sharings=None,
    mutual=True,
    same_neighbours=True,
    waits_for="nothing; at its end until its neighbours are done, or silent as long as `missing` says",
    remembers="the last model of each neighbour; nothing with `memory: false`",
    crash_costs="its neighbours go on with its last model, or without it as `missing` says",
)

SWIFT_RANDOM = AlgorithmFacts(
    name="swift-random",
    code=f"{PACKAGE}.swift_random:SwiftRandom",
    summary="train, send the model to a few random nodes, average what has come; never wait",
    options=(Option("recipients", Type.POSITIVE, None, "To how many a model goes; log2 of the nodes, rounded up."),),
    paper=PAPER,
    local_steps=None,
    exchange=_with_recipients,
    messages=_to_recipients,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=None,
    mutual=False,
    same_neighbours=False,
    waits_for="nothing",
    remembers="nothing",
    crash_costs="nothing: what is sent to it is lost",
)
