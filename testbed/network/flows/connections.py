"""State of all TCP connections as arrays by slot, and the messages that each has still to send.

Takes slots and values; touches nothing. A connection keeps its slot for good. Slots are assigned in the order of pairs,
so that sums over them never depend on the order of calls.
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
    """A transfer in its connection's queue, and how many of its bytes this connection has to send."""

    transfer: Transfer
    size_bytes: float


@dataclass(eq=False, slots=True)
class TcpConnection:
    """State of one ordered pair of nodes that is used once per message."""

    origin: int
    dest: int
    draws: Draws
    route: FlowRoute | None = None
    """Looked up in `routes`, the network of that time."""
    routes: FlowRoutes | None = None
    slot: int = -1
    sent_count: int = 0
    """Number of messages handed over so far."""
    queue: deque[TransferPart] = field(default_factory=deque)
    delivered_s: float = 0.0
    """When the previous message is delivered; the next one is not delivered earlier."""
    opened_s: float = 0.0
    """When the handshake ends."""
    stalled_s: float = 0.0
    """Since when it has had no path to send on."""
    held_s: float = 0.0
    """Data behind a lost segment is not delivered before this time, when the segment has been retransmitted."""

    @property
    def present_route(self) -> FlowRoute:
        """The route, which must exist because something is being sent."""
        if self.route is None:
            raise RuntimeError(f"there is no path from {self.origin} to {self.dest}")
        return self.route


class Connections:
    """One array per property; the first `slots` entries are in use."""

    def __init__(self, no_link: int) -> None:
        self.slots = 0
        self.by_slot: list[TcpConnection] = []
        self.no_link = no_link
        self.is_busy = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """Whether it has something to send."""
        self.is_open = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """Whether the handshake has begun."""
        self.links: Links = np.full((_FIRST_SLOTS, _FIRST_HOPS), no_link, dtype=np.intp)
        self.back: Links = np.full((_FIRST_SLOTS, _FIRST_HOPS), no_link, dtype=np.intp)
        """Links of the acknowledgements' path."""
        self.most: Floats = np.zeros(_FIRST_SLOTS)
        """Rate of the slowest link."""
        self.rtt_s: Floats = np.zeros(_FIRST_SLOTS)
        self.loss: Floats = np.zeros(_FIRST_SLOTS)

        self.rate: Floats = np.zeros(_FIRST_SLOTS)
        """Current rate in bytes per second, or the last one."""
        self.queued: Floats = np.zeros(_FIRST_SLOTS)
        """Unsent bytes of all messages."""
        self.head: Floats = np.zeros(_FIRST_SLOTS)
        """Unsent bytes of the first message."""
        self.to_loss: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes until the next lost segment."""
        self.began_s: Floats = np.zeros(_FIRST_SLOTS)
        """When the connection last had something to send after a pause."""
        self.last_sent_s: Floats = np.zeros(_FIRST_SLOTS)

        self.window: Floats = np.zeros(_FIRST_SLOTS)
        self.threshold: Floats = np.zeros(_FIRST_SLOTS)
        """Where slow start ends."""
        self.budget: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes that may still be sent in this round."""
        self.round_end_s: Floats = np.zeros(_FIRST_SLOTS)
        self.round_trips: Floats = np.ones(_FIRST_SLOTS)
        """Number of round trips that this round stands for."""
        self.round_sent: Floats = np.zeros(_FIRST_SLOTS)
        self.round_busy_s: Floats = np.zeros(_FIRST_SLOTS)
        """Time spent sending in this round."""
        self.lost: Floats = np.zeros(_FIRST_SLOTS)
        """Losses in this round: 1 for a segment, 2 if its retransmission was lost as well."""
        self.before_loss: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes sent in this round before the first loss."""
        self.is_clocked = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """Whether the round follows another, so that acknowledgements rather than a new message open its window."""
        self.missing: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes that a full queue dropped in this round."""
        self.before_pause: Floats = np.zeros(_FIRST_SLOTS)
        """Bytes that this round had sent when the next message came; free again once acknowledged."""
        self.return_s: Floats = np.zeros(_FIRST_SLOTS)
        """Latency of the path back."""
        self.longer: Floats = np.zeros(_FIRST_SLOTS)
        """Factor by which it takes longer than its fair share allows, where data fills both directions."""
        self.is_unanswered = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        """Whether the round's end is preliminary: the arrival of its first segment, not yet of its acknowledgement."""
        self.peak: Floats = np.zeros(_FIRST_SLOTS)
        """Cubic: window at the last loss, 0 before any."""
        self.peak_in_s: Floats = np.zeros(_FIRST_SLOTS)
        """Cubic: time after the loss at which the window reaches `peak` again."""
        self.epoch_s: Floats = np.zeros(_FIRST_SLOTS)
        """Cubic: time of the last loss."""

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
        """Sets the connection's route."""
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
        """Bytes of their windows that wait before links rather than being in flight."""
        window = np.minimum(self.window[slots], self.queued[slots])
        under_way = self.is_clocked[slots] * self.rate[slots] * self.rtt_s[slots]
        found: Floats = np.maximum(np.minimum(window - under_way, self.budget[slots]), 0.0)
        return found

    def room(self, slots: Links) -> Floats:
        """Bytes that they may send and have to send."""
        return np.minimum(self.budget[slots], self.queued[slots])
