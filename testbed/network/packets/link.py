"""One directed link: its queue, its draws and its counts.

Takes pieces in the order in which they reach the link, gives when they get to its end; touches nothing. Every link has
random streams of its own, by its name: one for losses (a draw for every piece sent while there is loss) and one for
jitter (a draw for every piece that is not lost while there is jitter). Draws, and the order of operations on times,
are specified in docs/internals/random-numbers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from testbed.network.draws import normals, uniforms
from testbed.network.packets.train import Train
from testbed.network.packets.wire import Wire
from testbed.seeds import derive

Carried = tuple[list[float], list[float], list[int]]
"""When pieces get to the end, when they leave the queue, and which they are."""


class Link:
    """The state of one directed link."""

    def __init__(self, index: int, name: str, seed: int, wire: Wire, lookahead_s: float, in_order: bool) -> None:
        self.index = index
        self.wire = wire
        self.lookahead_s = lookahead_s
        self.pending: list[tuple[float, int, int, Train]] = []
        """A heap of the trains whose next pieces will reach the link: when, key, piece."""
        self._name = name
        self._seed = seed
        self._in_order = in_order
        self._backlog_s = 0.0
        self._at_s = 0.0
        """When the backlog was so much."""
        self.packets = self.bytes = 0
        self.dropped_queue = self.dropped_loss = self.dropped_down = 0
        self.queue_s = self.queue_max_s = 0.0

    @cached_property
    def draw_loss(self) -> Callable[[], float]:
        """The next draw of the losses: a piece is lost when it is less than the loss rate."""
        return uniforms(derive(self._seed, "packets", "loss", self._name))

    @cached_property
    def _draw_jitter(self) -> Callable[[], float]:
        return normals(derive(self._seed, "packets", "jitter", self._name))

    @property
    def free_since_s(self) -> float:
        """Since when it has nothing to send; later than now while it has, infinite while it is not known how much."""
        if self.pending:
            return math.inf
        return self._at_s + self._backlog_s / self.wire.drain

    def carry(self, train: Train, end: int) -> Carried:
        """What gets through of a train's next pieces, up to a place."""
        start, times, sizes, order = train.pos, train.times, train.sizes, train.pieces
        wire = self.wire
        if not wire.up:
            self.dropped_down += end - start
            train.route.flow.dropped_packets += end - start
            return [], [], []
        backlog, at_s, limit, byte_s, drain, loss = (
            self._backlog_s,
            self._at_s,
            wire.limit_s,
            wire.byte_s,
            wire.drain,
            wire.loss,
        )
        draw_loss = self.draw_loss if loss else None
        departs: list[float] = []
        pieces: list[int] = []
        too_long = lost = sent_bytes = 0
        waited = 0.0
        for place in range(start, end):
            time_s = times[place]
            wait = backlog - (time_s - at_s) * drain
            if wait > 0.0:
                if wait > limit:
                    too_long += 1
                    continue
                waited += wait
                if wait > self.queue_max_s:
                    self.queue_max_s = wait
            else:
                wait = 0.0
            piece = order[place]
            size = sizes[piece]
            backlog = wait + size * byte_s
            at_s = time_s
            sent_bytes += size
            if draw_loss is not None and draw_loss() < loss:
                lost += 1
                continue
            departs.append(time_s + backlog)
            pieces.append(piece)
        self._backlog_s, self._at_s = backlog, at_s
        self.packets += end - start - too_long
        self.bytes += sent_bytes
        self.queue_s += waited
        train.route.flow.queue_s += waited
        if too_long or lost:
            self.dropped_queue += too_long
            self.dropped_loss += lost
            train.route.flow.dropped_packets += too_long + lost
        latency = wire.latency_s
        if wire.jitter_s:
            return self._shaken(train, departs, pieces)
        return [depart + latency for depart in departs], departs, pieces

    def _shaken(self, train: Train, departs: list[float], pieces: list[int]) -> Carried:
        latency, jitter = self.wire.latency_s, self.wire.jitter_s
        draw = self._draw_jitter
        arrivals = [depart + max(0.0, latency + jitter * draw()) for depart in departs]
        if not self._in_order:
            ordered = sorted(zip(arrivals, departs, pieces, strict=True))
            return [each[0] for each in ordered], [each[1] for each in ordered], [each[2] for each in ordered]
        latest = train.route.latest
        before = latest[train.hop]
        for place, arrival in enumerate(arrivals):
            if arrival < before:
                arrivals[place] = before
            else:
                before = arrival
        latest[train.hop] = before
        return arrivals, departs, pieces

    def rewire(self, now_s: float, wire: Wire) -> None:
        """The backlog stays as many bytes as it is; a link that goes down forgets it."""
        old = self.wire
        backlog = max(0.0, self._backlog_s - (now_s - self._at_s) * old.drain)
        self._backlog_s = backlog / old.byte_s * wire.byte_s if backlog and wire.up else 0.0
        self._at_s = now_s
        self.wire = wire
