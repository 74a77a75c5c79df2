"""Queues before links: acknowledgements wait behind data, and what a queue cannot hold is dropped.

Takes `Connections` and the links' capacities, computes when rounds end and what gets through; touches nothing else. A
sender hands its window to its first link at once, so what a round may still send waits before links. The exception is
what acknowledgements release one by one: of that a round trip's worth is in flight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.network.flows.connections import Connections
from testbed.network.flows.routes import FlowRoutes
from testbed.network.flows.settings import Tcp
from testbed.network.graph import Floats

Slots = NDArray[np.intp]

_AT_ONCE = 1e15
"""Rate in bytes per second at which a host fills the queue of its first link."""


class Queues:
    """The queues of all links, as the windows of busy connections fill them."""

    def __init__(self, connections: Connections, tcp: Tcp) -> None:
        self._all = connections
        self._mss = float(tcp.mss_bytes)
        self._drops = tcp.drops

    def look(self, busy: Slots, asked: Slots, rounds: Slots, begun: list[int], routes: FlowRoutes) -> None:
        """Applies queues to everything that happens at one instant, independent of its order.

        `asked`: connections whose first segments have arrived, so that the ends of their rounds are computed. Rounds of
        others begin, and messages within rounds: what queues cannot hold of them is dropped.
        """
        capacity = routes.capacity
        standing = self._standing(busy, capacity)
        if asked.size:
            self._answer(asked, standing / capacity)
        if self._drops and np.count_nonzero(standing > routes.limit):
            adding = np.union1d(rounds, np.array(begun, dtype=np.intp)) if begun else rounds
            self._overflow(adding, busy, standing, routes)

    def _answer(self, slots: Slots, stands_s: Floats) -> None:
        """Delays acknowledgements by the data that waits before the links of the path back."""
        every = self._all
        every.round_end_s[slots] += stands_s.take(every.back.take(slots, axis=0)).max(axis=1) + every.return_s[slots]
        every.is_unanswered[slots] = False

    def _standing(self, slots: Slots, capacity: Floats) -> Floats:
        """Bytes that have still to pass each link, wherever they wait now."""
        links = self._all.links.take(slots, axis=0)
        each = np.repeat(self._all.standing(slots), links.shape[1])
        found: Floats = np.bincount(links.ravel(), each, minlength=capacity.size).astype(np.float64, copy=False)
        found[-1] = 0.0
        return found

    def _overflow(self, adding: Slots, busy: Slots, standing: Floats, routes: FlowRoutes) -> None:
        """Drops what does not fit: it is not sent in this round, and the window is reduced at the round's end.

        Messages handed over together queue in order, so the last of them lose; what acknowledgements release is mixed,
        so all lose a share.
        """
        every = self._all
        over = _queued(every.links[busy], standing, routes.capacity) - routes.limit
        links, added, is_burst = every.links[adding], every.standing(adding), ~every.is_clocked[adding]
        dropped = np.zeros(adding.size)
        for link in (over > 0.0).nonzero()[0].tolist():
            there = (links == link).any(axis=1)
            bursts = (there & is_burst).nonzero()[0]
            gone = 0.0
            if bursts.size:
                burst = added[bursts]
                behind = np.cumsum(burst[::-1])[::-1] - burst
                lost = np.clip(over[link] - behind, 0.0, burst)
                dropped[bursts] = np.maximum(dropped[bursts], lost)
                gone = float(lost.sum())
            clocked = (there & ~is_burst).nonzero()[0]
            if clocked.size and over[link] > gone:
                part = min(1.0, (over[link] - gone) / max(float(standing[link]), self._mss))
                dropped[clocked] = np.maximum(dropped[clocked], added[clocked] * part)
        dropped = np.floor(dropped / self._mss) * self._mss
        hurt = dropped > 0.0
        if not np.count_nonzero(hurt):
            return
        slots, dropped = adding[hurt], dropped[hurt]
        every.budget[slots] = np.maximum(every.room(slots) - dropped, self._mss)
        every.missing[slots] = dropped
        every.before_loss[slots] = every.round_sent[slots] + every.budget[slots]
        every.lost[slots] = np.maximum(every.lost[slots], 1.0)


def _queued(links: Slots, standing: Floats, capacity: Floats) -> Floats:
    """Bytes in a link's queue when all data has arrived at it, as fast as earlier links allow."""
    share = capacity / np.maximum(np.bincount(links.ravel(), minlength=capacity.size), 1)
    coming = np.full(links.shape, _AT_ONCE)
    coming[:, 1:] = np.minimum.accumulate(share[links], axis=1)[:, :-1]
    arriving = np.bincount(links.ravel(), coming.ravel(), minlength=capacity.size)
    found: Floats = standing * (1.0 - capacity / np.maximum(arriving, capacity))
    return found
