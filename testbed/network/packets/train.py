"""Pieces of one segment on their way together, and the flow they belong to.

Takes nothing, gives the mutable state that `model` moves along; touches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.network.packets.link import Link


class Flow:
    """An ordered pair of nodes: its route now, and what it has carried."""

    __slots__ = (
        "arrived_bytes",
        "arrived_packets",
        "dest",
        "dropped_packets",
        "epoch",
        "offered_bytes",
        "offered_packets",
        "origin",
        "queue_s",
        "route",
    )

    def __init__(self, origin: int, dest: int) -> None:
        self.origin = origin
        self.dest = dest
        self.route: Route | None = None
        self.epoch = -1
        """Of which network `route` is."""
        self.offered_packets = self.offered_bytes = 0
        self.arrived_packets = self.arrived_bytes = 0
        self.dropped_packets = 0
        """For whatever reason, no path included."""
        self.queue_s = 0.0
        """All the waiting of its packets, in all queues."""


class Route:
    """The links that a flow takes, and on each when its latest piece gets to the end."""

    __slots__ = ("flow", "latency_s", "latest", "links", "window_s")

    def __init__(self, flow: Flow, links: tuple[Link, ...]) -> None:
        self.flow = flow
        self.links = links
        self.latest = [0.0] * len(links)
        self.latency_s = self.window_s = 0.0
        """Pieces of a segment that arrive within the window of the first of them are handed over together."""


class Train:
    """Pieces of one segment that reach the same link, or the destination, one after the other."""

    __slots__ = ("departs", "hop", "key", "next", "pieces", "pos", "route", "sizes", "times", "window_s")

    def __init__(
        self,
        route: Route,
        key: int,
        sizes: tuple[int, ...],
        window_s: float,
        hop: int,
        times: list[float],
        departs: list[float],
        pieces: list[int],
    ) -> None:
        self.route = route
        self.key = key
        """Orders what happens at the same time."""
        self.sizes = sizes
        """Of every piece of the segment."""
        self.window_s = window_s
        """Of its route when it was offered."""
        self.hop = hop
        """Which link of the route they reach; the number of links when it is the destination, GONE when none."""
        self.times = times
        """When each piece gets there."""
        self.departs = departs
        """When each leaves the queue of the link before."""
        self.pieces = pieces
        self.pos = 0
        """How many have been carried further."""
        self.next: Train | None = None
        """Pieces of this train that are one link further, while they are there."""

    def extend(self, times: list[float], departs: list[float], pieces: list[int]) -> None:
        self.times += times
        self.departs += departs
        self.pieces += pieces

    def merge(self, times: list[float], departs: list[float], pieces: list[int]) -> None:
        """Those that have not been carried further, and these, in the order in which they get there."""
        at = self.pos
        here = zip(self.times[at:], self.pieces[at:], self.departs[at:], strict=True)
        ordered = sorted([*here, *zip(times, pieces, departs, strict=True)])
        self.times, self.pieces, self.departs = (list(each) for each in zip(*ordered, strict=True))
        self.pos = 0


GONE = -1
_SEGMENTS = 1 << 42


def key_of(origin: int, segment: int) -> int:
    """What happens at the same time happens by rank of the origin, then as offered."""
    return origin * _SEGMENTS + segment


def segment_of(key: int) -> int:
    return key % _SEGMENTS
