"""The state of all connections, as arrays by slot; and what each of them still has to send.

Takes nothing but slots and values; touches nothing. A connection keeps its slot for good. Slots are given out in the
order of pairs, so that sums over them never depend on the order of calls.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from testbed.network.flows.bandwidth_sharing import Links
from testbed.network.flows.draws import Draws
from testbed.network.flows.routes import FlowRoute, FlowRoutes
from testbed.network.flows.transfers import Transfer
from testbed.network.graph import Floats

_FIRST_SLOTS = 256
_FIRST_HOPS = 4


@dataclass(slots=True)
class TransferPart:
    """A transfer in its connection's queue, and how many of its bytes this connection is to send."""

    transfer: Transfer
    size_bytes: float


@dataclass(eq=False, slots=True)
class TcpConnection:
    """One ordered pair of nodes: what is looked at once per message rather than all the time."""

    origin: int
    dest: int
    draws: Draws
    route: FlowRoute | None = None
    """As of `routes`, the network that it was last looked up in."""
    routes: FlowRoutes | None = None
    slot: int = -1
    sent_count: int = 0
    """Messages handed over so far."""
    queue: deque[TransferPart] = field(default_factory=deque)
    delivered_s: float = 0.0
    """When the message before is delivered: the next one is not earlier."""
    opened_s: float = 0.0
    """When the handshake was, or will be, done."""
    stalled_s: float = 0.0
    """Since when it tries in vain to send, while there is no path."""
    held_s: float = 0.0
    """Nothing that left after a lost segment is delivered before that segment has been sent again."""

    @property
    def present_route(self) -> FlowRoute:
        """The route, where there must be one because something is being sent."""
        if self.route is None:
            raise RuntimeError(f"there is no path from {self.origin} to {self.dest}")
        return self.route


class Connections:
    """One array per property; `slots` of them are in use."""

    def __init__(self, no_link: int) -> None:
        self.slots = 0
        self.by_slot: list[TcpConnection] = []
        self.no_link = no_link
        self.is_busy = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """Has something to send."""
        self.is_open = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """The handshake was begun."""
        self.links: Links = np.full((_FIRST_SLOTS, _FIRST_HOPS), no_link, dtype=np.intp)
        self.back: Links = np.full((_FIRST_SLOTS, _FIRST_HOPS), no_link, dtype=np.intp)
        """Links that the acknowledgements go over."""
        self.most: Floats = np.zeros(_FIRST_SLOTS)
        """The rate of the slowest link."""
        self.rtt_s: Floats = np.zeros(_FIRST_SLOTS)
        self.loss: Floats = np.zeros(_FIRST_SLOTS)

        self.rate: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes per second since the last step, or when it last sent."""
        self.queued: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes of all messages that have not left."""
        self.head: Floats = np.zeros(_FIRST_SLOTS)
        """Those of the first of them."""
        self.to_loss: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes until the next segment that is lost."""
        self.began_s: Floats = np.zeros(_FIRST_SLOTS)
        """When the connection last had something to send after a pause."""
        self.last_sent_s: Floats = np.zeros(_FIRST_SLOTS)

        self.window: Floats = np.zeros(_FIRST_SLOTS)
        self.threshold: Floats = np.zeros(_FIRST_SLOTS)
        """Where slow start ends."""
        self.budget: Floats = np.zeros(_FIRST_SLOTS)
        """What may still be sent in this round."""
        self.round_end_s: Floats = np.zeros(_FIRST_SLOTS)
        self.round_trips: Floats = np.ones(_FIRST_SLOTS)
        """How many round trips this round stands for."""
        self.round_sent: Floats = np.zeros(_FIRST_SLOTS)
        self.round_busy_s: Floats = np.zeros(_FIRST_SLOTS)
        """How long it took to send that."""
        self.lost: Floats = np.zeros(_FIRST_SLOTS)
        """In this round: 1 a segment, 2 also the segment sent again in its place."""
        self.before_loss: Floats = np.zeros(_FIRST_SLOTS)
        """What was sent in this round before the first of them."""
        self.is_clocked = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """The round follows one before it, so acknowledgements set its window free, not a new message."""
        self.missing: Floats = np.zeros(_FIRST_SLOTS)
        """What a full queue dropped in this round."""
        self.before_pause: Floats = np.zeros(_FIRST_SLOTS)
        """What this round had sent when the next message came: not free again before that is acknowledged."""
        self.return_s: Floats = np.zeros(_FIRST_SLOTS)
        """The latency of the way back."""
        self.longer: Floats = np.zeros(_FIRST_SLOTS)
        """By how much longer than with its fair share of the links it takes, where data fills both ways."""
        self.is_unanswered = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """The round's end is when its first segment arrives, until it is known when the acknowledgement comes back."""
        self.peak: Floats = np.zeros(_FIRST_SLOTS)
        """Cubic's: the window at the last loss, 0 before any."""
        self.peak_in_s: Floats = np.zeros(_FIRST_SLOTS)
        """Cubic's: how long after the loss the window is there again."""
        self.epoch_s: Floats = np.zeros(_FIRST_SLOTS)
        """Cubic's: when it last lost."""

    def add(self, connection: TcpConnection) -> None:
        """Gives the connection a slot."""
        if self.slots == self.is_busy.size:
            self._grow()
        connection.slot = self.slots
        self.by_slot.append(connection)
        self.slots += 1

    def _grow(self) -> None:
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                more = np.zeros_like(array) if array.ndim == 1 else np.full_like(array, self.no_link)
                setattr(self, name, np.concatenate([array, more]))

    def set_route(self, slot: int, route: FlowRoute) -> None:
        """Where the connection's bytes go from now on."""
        self.links = self._with_row(self.links, slot, route.links)
        self.back = self._with_row(self.back, slot, route.back_links)
        self.most[slot] = route.rate_bytes_s
        self.rtt_s[slot] = route.rtt_s
        self.return_s[slot] = route.return_s
        self.loss[slot] = route.loss

    def _with_row(self, table: Links, slot: int, row: tuple[int, ...]) -> Links:
        missing = len(row) - table.shape[1]
        if missing > 0:
            more = np.full((table.shape[0], missing), self.no_link, dtype=np.intp)
            table = np.concatenate([table, more], axis=1)
        table[slot] = self.no_link
        table[slot, : len(row)] = row
        return table

    def standing(self, slots: Links) -> Floats:
        """What of their windows stands before links, rather than being under way."""
        window = np.minimum(self.window[slots], self.queued[slots])
        under_way = self.is_clocked[slots] * self.rate[slots] * self.rtt_s[slots]
        found: Floats = np.maximum(np.minimum(window - under_way, self.budget[slots]), 0.0)
        return found

    def room(self, slots: Links) -> Floats:
        """What they may send and have."""
        return np.minimum(self.budget[slots], self.queued[slots])
