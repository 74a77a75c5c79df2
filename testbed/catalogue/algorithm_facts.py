"""The facts of one algorithm: what a plan, an estimate and a reader must know of it.

Pure. An entry is all that is said of an algorithm outside of its own file, `docs/algorithms.md` and its tests. A fact
that an entry leaves out is an error at import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from testbed.catalogue.exchanges import Exchange, Messages, WithPeers, WithServer
from testbed.catalogue.options import Option, Values

PACKAGE = "testbed.node.algorithms"

OutboxPolicy = Literal["fifo", "flush", "latest"]

FANOUT_OPTIONS = ("fanout", "recipients", "degree")
"""Names of options that say to how many nodes a node sends, where it draws them."""


@dataclass(frozen=True)
class OutboxFacts:
    """How an outbox works where the experiment does not say."""

    policy: OutboxPolicy
    in_flight: int | None
    """Messages under way at once to all peers; None: one to each."""


@dataclass(frozen=True)
class Paper:
    """Where an algorithm was published."""

    authors: str
    title: str
    venue: str
    year: int
    arxiv: str | None
    """Its number there, such as `1705.09056`."""


@dataclass(frozen=True)
class AlgorithmFacts:
    """One algorithm."""

    name: str
    code: str
    summary: str
    options: tuple[Option, ...]
    paper: Paper
    local_steps: int | None
    """Local steps of a round; None: as many as `training` says."""
    exchange: Callable[[Values], Exchange]
    """What a round is like, by the options."""
    messages: Messages
    """The messages that are sent in a round."""
    outbox: OutboxFacts
    sharings: tuple[str, ...] | None
    """The sharings that it can have; None: all, own code included."""
    mutual: bool
    """Its neighbours must have it as a neighbour, too: it waits for those that it sends to, or pairs with them."""
    same_neighbours: bool
    """It remembers something of each neighbour, so the overlay must be the same in every round. All of its nodes know
    the whole graph."""
    waits_for: str
    """What a node waits for in a round, as one short clause."""
    remembers: str
    """What a node keeps from one round to the next besides its model; the same."""
    crash_costs: str
    """What the crash of a node costs the others; the same."""

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
    def usual_options(self) -> Values:
        """All options with their defaults."""
        return {option.name: option.default for option in self.options}

    @property
    def _usual(self) -> Exchange:
        return self.exchange(self.usual_options)
