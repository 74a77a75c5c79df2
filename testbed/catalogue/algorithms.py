"""The algorithms that come with the package: what a plan and an estimate must know of each.

Pure. An entry is all that is said of an algorithm outside of its own file, `docs/algorithms.md` and its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from testbed.catalogue.options import Option, Type, Values, number, number_or_none
from testbed.catalogue.tables import by_name


class Partners(StrEnum):
    """To which nodes a node sends models: what an algorithm asks of the experiment's overlay."""

    NEIGHBOURS = "neighbours"
    """Those of the overlay, which may be another graph in every round."""
    REGULAR = "regular"
    """Its neighbours in a random regular graph, drawn from the seed every round; the overlay is not asked."""
    ANY = "any"
    """Nodes that it draws itself every round among all others; the overlay is not asked."""


@dataclass(frozen=True)
class WithPeers:
    """A round without a server."""

    partners: Partners
    fanout: int | None
    """To how many of them; None: to all neighbours, or to as many as the plan says where they are drawn."""
    waits: bool
    """Every node waits for models of others in every round, so that all of them train at the same time."""
    pause_s: float | None
    """How long a node waits after sending; None: for the models that it is sent."""
    tells_others: bool
    """Nodes that are sent no model are told so, and every node waits for all others."""

    @property
    def draws(self) -> bool:
        """The overlay is not asked."""
        return self.partners is not Partners.NEIGHBOURS


@dataclass(frozen=True)
class WithServer:
    """A round in which a server sends its model to clients, and gets something as large back."""

    participation: float
    """The part of the clients whose answers end a round."""
    over_selection: float
    """So many times as many are asked."""
    deadline_s: float | None
    """When a round ends at the latest."""
    waits: bool
    """The server waits for the answers of a round; otherwise it answers each one at once."""


Exchange = WithPeers | WithServer

FANOUT_OPTIONS = ("fanout", "recipients")
"""Names of options that say to how many nodes a node sends, where it draws them."""


@dataclass(frozen=True)
class AlgorithmFacts:
    """One algorithm."""

    name: str
    code: str
    summary: str
    options: tuple[Option, ...]
    local_steps: int | None
    """Local steps of a round; None: as many as `training` says."""
    exchange: Callable[[Values], Exchange]
    """What a round is like, by the options."""

    def __post_init__(self) -> None:
        usual = self._usual
        if isinstance(usual, WithPeers) and usual.draws and self.fanout_option is None:
            raise ValueError(f"{self.name} draws its peers, and has no option {' or '.join(FANOUT_OPTIONS)}")

    @property
    def fanout_option(self) -> str | None:
        """The option that says to how many nodes a node sends; None for an algorithm that does not draw them."""
        return next((option.name for option in self.options if option.name in FANOUT_OPTIONS), None)

    @property
    def needs_server(self) -> bool:
        """One node serves instead of learning."""
        return isinstance(self._usual, WithServer)

    @property
    def _usual(self) -> Exchange:
        return self.exchange({option.name: option.default for option in self.options})


def _with_all_neighbours(_options: Values) -> Exchange:
    return WithPeers(Partners.NEIGHBOURS, fanout=None, waits=True, pause_s=None, tells_others=False)


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


def _with_fragments(options: Values) -> Exchange:
    count = number_or_none(options, "recipients")
    return WithPeers(
        Partners.ANY, fanout=None if count is None else int(count), waits=False, pause_s=0.0, tells_others=False
    )


def _with_drawn_peers_by_fragment(options: Values) -> Exchange:
    return _with_drawn_peers({**options, "mode": "local"})


def _with_some_clients(options: Values) -> Exchange:
    return WithServer(
        participation=number(options, "participation"),
        over_selection=number(options, "over_selection"),
        deadline_s=number_or_none(options, "deadline"),
        waits=True,
    )


def _with_all_clients(options: Values) -> Exchange:
    return WithServer(participation=1.0, over_selection=1.0, deadline_s=None, waits=options["mode"] == "sync")


_PACKAGE = "testbed.node.algorithms"

DEFAULT_ALGORITHM = "dpsgd"
ALGORITHMS = by_name(
    AlgorithmFacts(
        name="dpsgd",
        code=f"{_PACKAGE}.dpsgd:DPSGD",
        summary="train, exchange models with all neighbours, average",
        options=(),
        local_steps=None,
        exchange=_with_all_neighbours,
    ),
    AlgorithmFacts(
        name="epidemic",
        code=f"{_PACKAGE}.epidemic:Epidemic",
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
        local_steps=None,
        exchange=_with_drawn_peers,
    ),
    AlgorithmFacts(
        name="divshare",
        code=f"{_PACKAGE}.divshare:DivShare",
        summary="train, send each fragment of the model to a few random nodes, average what has come; never wait",
        options=(
            Option("fraction", Type.SHARE, 0.1, "Omega: the part of the parameters that is in one fragment."),
            Option("recipients", Type.POSITIVE, None, "To how many a fragment goes; log2 of their number, rounded up."),
            Option("reseed", ("never", "round"), "never", "When models are cut in another way: not at all, or anew."),
        ),
        local_steps=None,
        exchange=_with_fragments,
    ),
    AlgorithmFacts(
        name="mosaic",
        code=f"{_PACKAGE}.mosaic:Mosaic",
        summary="epidemic learning in fragments: each goes to a few random nodes of its own",
        options=(
            Option("fragments", Type.POSITIVE, 8, "Into how many parts a model is cut."),
            Option("fanout", Type.POSITIVE, None, "To how many a fragment goes; log2 of their number, rounded up."),
            Option(
                "round_end", ("notify", "timeout", "expected"), "expected", "How a node knows that nothing more comes."
            ),
            Option("timeout", Type.DURATION, 1.0, "With `round_end: timeout`: how long to wait after sending."),
        ),
        local_steps=None,
        exchange=_with_drawn_peers_by_fragment,
    ),
    AlgorithmFacts(
        name="fedavg",
        code=f"{_PACKAGE}.fedavg:FedAvg",
        summary="federated averaging: a server has clients train its model, and averages theirs",
        options=(
            Option("participation", Type.SHARE, 1.0, "Part of the clients that a round is done with."),
            Option("weighted", Type.TRUTH, True, "Clients count by their number of samples."),
            Option("deadline", Type.DURATION, None, "The server goes on without clients that take longer."),
            Option(
                "over_selection", Type.AT_LEAST_ONE, 1.0, "How many times more clients are asked than are waited for."
            ),
        ),
        local_steps=None,
        exchange=_with_some_clients,
    ),
    AlgorithmFacts(
        name="parameter-server",
        code=f"{_PACKAGE}.parameter_server:ParameterServer",
        summary="workers compute gradients, a server has the model and takes the steps",
        options=(
            Option("mode", ("sync", "async"), "sync", "All gradients of a round together, or each at once."),
            Option("damping", ("none", "staleness"), "none", "With `async`: old gradients count less."),
            Option("max_lead", Type.POSITIVE, None, "With `async`: by how many steps the fastest may be ahead."),
        ),
        local_steps=1,
        exchange=_with_all_clients,
    ),
)


def exchange_of(name: str, options: Values) -> Exchange | None:
    """What a round of an algorithm is like; None for code that is not in the table."""
    facts = ALGORITHMS.get(name)
    return None if facts is None else facts.exchange(options)
