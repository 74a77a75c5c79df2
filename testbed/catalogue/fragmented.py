"""Algorithms that send models in fragments: entries of `ALGORITHMS`.

Pure.
"""

from __future__ import annotations

from testbed.catalogue.algorithm_facts import PACKAGE, AlgorithmFacts, OutboxFacts, Paper
from testbed.catalogue.exchanges import BetweenVirtualNodes, Exchange, Partners, Sender, Sent, WithPeers, to_drawn_nodes
from testbed.catalogue.options import Option, Type, Values, number, number_or_none
from testbed.catalogue.shares import fragments_of


def _fragments(what: str, parts: int, recipients: float) -> Sent:
    count = parts * recipients
    return Sent(what, Sender.LEARNER, count, is_drawn=False, answers=False, part=1 / parts, shared=False)


def _to_recipients(options: Values) -> Exchange:
    return to_drawn_nodes(options, "recipients")


def _each_to_recipients(options: Values, _learners: int, degree: float) -> tuple[Sent, ...]:
    count = number_or_none(options, "recipients")
    parts = fragments_of(number(options, "fraction"))
    return (_fragments("each fragment to `recipients` nodes", parts, degree if count is None else count),)


def _with_drawn_peers(options: Values) -> Exchange:
    fanout, end = number_or_none(options, "fanout"), options["round_end"]
    return WithPeers(
        Partners.ANY,
        fanout=None if fanout is None else int(fanout),
        waits=end == "notify",  # otherwise a node may be one that no other has drawn
        pause_s=number(options, "timeout") if end == "timeout" else None,
        tells_others=False,  # each fragment has its notes, which are messages like others
    )


def _each_to_drawn_peers(options: Values, learners: int, degree: float) -> tuple[Sent, ...]:
    fanout = number_or_none(options, "fanout")
    parts, recipients = int(number(options, "fragments")), degree if fanout is None else fanout
    fragments = _fragments("each fragment to `fanout` nodes", parts, recipients)
    if options["round_end"] != "notify":
        return (fragments,)
    notes = parts * max(0.0, learners - 1 - recipients)
    what = "a note for each fragment to each other node"
    return fragments, Sent(what, Sender.LEARNER, notes, is_drawn=False, answers=False, part=0.0, shared=False)


def _between_virtual_nodes(options: Values) -> Exchange:
    virtual = int(number(options, "virtual_nodes"))
    return BetweenVirtualNodes(
        Partners.ANY if virtual > 1 else Partners.REGULAR,
        fanout=int(number(options, "degree")),
        waits=True,
        pause_s=None,
        tells_others=False,
        virtual=virtual,
    )


def _each_to_virtual_neighbours(options: Values, learners: int, _degree: float) -> tuple[Sent, ...]:
    virtual, degree = int(number(options, "virtual_nodes")), int(number(options, "degree"))
    of_others = (learners - 1) * virtual / max(1, learners * virtual - 1)
    return (
        Sent(
            "a chunk from each virtual node to `degree` others",
            Sender.LEARNER,
            virtual * degree * of_others,
            is_drawn=virtual > 1,  # neighbours of the same learner cost nothing
            answers=False,
            part=1 / virtual,
            shared=False,
        ),
    )


PAPER = Paper(
    authors="Biswas et al.",
    title="Boosting Asynchronous Decentralized Learning with Model Fragmentation",
    venue="WWW",
    year=2025,
    arxiv="2410.12918",
)
"""That of DivShare, which compares it with others."""

DIVSHARE = AlgorithmFacts(
    name="divshare",
    code=f"{PACKAGE}.divshare:DivShare",
    summary="train, send each fragment of the model to a few random nodes, average what has come; never wait",
    options=(
        Option("fraction", Type.SHARE, 0.1, "Omega: the part of the parameters that is in one fragment."),
        Option("recipients", Type.POSITIVE, None, "To how many a fragment goes; log2 of the nodes, rounded up."),
        Option("reseed", ("never", "round"), "never", "Whether models are cut in another way each round."),
    ),
    paper=PAPER,
    local_steps=None,
    exchange=_to_recipients,
    messages=_each_to_recipients,
    outbox=OutboxFacts("flush", in_flight=2),
    sharings=("full",),
    mutual=False,
    same_neighbours=False,
    waits_for="nothing",
    remembers="nothing",
    crash_costs="nothing: what is sent to it is lost",
)

MOSAIC = AlgorithmFacts(
    name="mosaic",
    code=f"{PACKAGE}.mosaic:Mosaic",
    summary="epidemic learning in fragments: each goes to a few random nodes of its own",
    options=(
        Option("fragments", Type.POSITIVE, 8, "Into how many parts a model is cut."),
        Option("fanout", Type.POSITIVE, None, "To how many a fragment goes; log2 of the nodes, rounded up."),
        Option("round_end", ("notify", "timeout", "expected"), "expected", "How a node knows that nothing more comes."),
        Option("timeout", Type.DURATION, 1.0, "With `round_end: timeout`: how long to wait after sending."),
    ),
    paper=Paper(
        authors="Biswas et al.",
        title="Mosaic Learning: A Framework for Decentralized Learning with Model Fragmentation",
        venue="arXiv",
        year=2026,
        arxiv="2602.04352",
    ),
    local_steps=None,
    exchange=_with_drawn_peers,
    messages=_each_to_drawn_peers,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=("full",),
    mutual=False,
    same_neighbours=False,
    waits_for="the fragments that are on their way to it in this round; with `round_end: timeout`, a fixed time",
    remembers="nothing",
    crash_costs="its recipients wait as `missing` says; with `round_end: timeout`, nothing",
)

SHATTER = AlgorithmFacts(
    name="shatter",
    code=f"{PACKAGE}.shatter:Shatter",
    summary="virtual nodes send chunks of models: no other node sees a whole one",
    options=(
        Option("virtual_nodes", Type.POSITIVE, 16, "How many each node runs; a chunk of the model for each."),
        Option("degree", Type.POSITIVE, 4, "To how many other virtual nodes a chunk goes."),
    ),
    paper=Paper(
        authors="Biswas et al.",
        title="Noiseless Privacy-Preserving Decentralized Learning",
        venue="arXiv",
        year=2024,
        arxiv="2404.09536",
    ),
    local_steps=None,
    exchange=_between_virtual_nodes,
    messages=_each_to_virtual_neighbours,
    outbox=OutboxFacts("fifo", in_flight=None),
    sharings=("full",),
    mutual=False,
    same_neighbours=False,
    waits_for="the chunks that its virtual nodes are due in this round",
    remembers="nothing",
    crash_costs="nodes that are due a chunk of it wait as `missing` says",
)
