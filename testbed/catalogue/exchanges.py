"""What a round of an algorithm is like: which nodes exchange, who waits, and the messages that are sent.

Pure. Entries of the table of algorithms consist of these; plans, estimates, the table of `docs/algorithms.md` and the
test of journals read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from testbed.catalogue.options import Values, number_or_none


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
    """A round without a server, in which all learners work."""

    partners: Partners
    fanout: int | None
    """To how many of them; None: to all neighbours, or to as many as the plan says where they are drawn."""
    waits: bool
    """Every node waits for models of others in every round, so that all of them train at the same time."""
    pause_s: float | None
    """How long a node waits after sending, if not for others; None: for the models that it is sent."""
    tells_others: bool
    """Nodes that are sent no model are told so, and every node waits for all others."""

    @property
    def draws(self) -> bool:
        """The overlay is not asked."""
        return self.partners is not Partners.NEIGHBOURS

    @property
    def is_free(self) -> bool:
        """Nodes wait for nothing at all: a round is over when its training is."""
        return not self.waits and self.pause_s == 0.0


@dataclass(frozen=True)
class BetweenVirtualNodes(WithPeers):
    """A round in which virtual nodes exchange: in a random regular graph of the degree `fanout`, over those of all."""

    virtual: int
    """How many each learner has."""


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


@dataclass(frozen=True)
class InTurns:
    """A round in which only some learners work, drawn anew from all: each gets a model, trains it and passes it on."""

    active: int
    """How many; all of them if there are fewer."""
    meets: int
    """With how many others of the same round each exchanges models after training."""
    collected: bool
    """One learner of the next round collects the models and sends their mean to the others of that round. Otherwise
    each model goes to one learner of the next round, or to all of them."""
    to_all: bool
    """Each model goes to all learners of the next round, which take the mean themselves."""
    asks: bool
    """Models are sent to those that have just answered a ping."""

    @property
    def waits(self) -> bool:
        """A node that works in a round waits for the model that comes to it."""
        return True


Exchange = WithPeers | WithServer | InTurns


class Sender(StrEnum):
    """Whose messages are counted."""

    LEARNER = "learner"
    SERVER = "server"


@dataclass(frozen=True)
class Sent:
    """One sort of message, and how many are sent in a round while all nodes are equally fast."""

    what: str
    """In a few words, such as `a model to each neighbour`."""
    by: Sender
    count: float
    """By each learner, as a mean over all of them; or by the server."""
    is_drawn: bool
    """Chance decides how many all nodes together send in a round, and `count` is the mean."""
    answers: bool
    """Each answers a message of the sort before."""
    part: float
    """What it carries: 1.0 a model, 1/C one of C fragments, 0.0 no payload at all (a control message)."""
    shared: bool
    """It carries what `sharing` sends of a model, otherwise the values themselves."""


def models(what: str, count: float) -> Sent:
    """So many models, as `sharing` sends them, from each learner."""
    return Sent(what, Sender.LEARNER, count, is_drawn=False, answers=False, part=1.0, shared=True)


def to_drawn_nodes(options: Values, option: str) -> WithPeers:
    """A round that waits for nothing, with recipients drawn among all others: as many as an option says."""
    count = number_or_none(options, option)
    fanout = None if count is None else int(count)
    return WithPeers(Partners.ANY, fanout, waits=False, pause_s=0.0, tells_others=False)


Messages = Callable[[Values, int, float], tuple[Sent, ...]]
"""The messages of a round, by the options, the number of learners, and the number of neighbours of a learner (as a
mean; with drawn peers the number of recipients that the plan chose). Without those that only begin or end a run, and
without a peer sampler's."""
