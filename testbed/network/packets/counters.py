"""What links and pairs of nodes have carried and dropped.

Takes the state of links and flows, gives arrays; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from testbed.network.packets.link import Link
from testbed.network.packets.train import Flow

Counts = NDArray[np.int64]
Times = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class LinkCounts:
    """Of every link that any flow has had on its route, by link. Counted when a packet enters the queue."""

    link: Counts
    """Which of the network's links."""
    packets: Counts
    """Sent: those that did not find the queue full, those that were lost afterwards included."""
    bytes: Counts
    dropped_queue: Counts
    dropped_loss: Counts
    dropped_down: Counts
    """Reached the link while it was down, was in its queue when it went down, or reached a node that is cut off."""
    queue_s: Times
    """All the waiting of the packets sent."""
    queue_max_s: Times
    """The longest wait since the snapshot before."""


@dataclass(frozen=True, eq=False, slots=True)
class PairCounts:
    """Of every ordered pair of nodes that has offered packets, in order of origin and destination."""

    origin: Counts
    dest: Counts
    offered_packets: Counts
    offered_bytes: Counts
    arrived_packets: Counts
    arrived_bytes: Counts
    dropped_packets: Counts
    """For whatever reason, no path included."""
    queue_s: Times
    """All the waiting of its packets so far, in all queues; counted when they enter one."""


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """Everything counted from the beginning up to a time."""

    at_s: float
    links: LinkCounts
    pairs: PairCounts
    no_path: int
    """Packets between nodes without a path."""
    in_flight: int
    """Packets in queues and on links."""


def snapshot(at_s: float, links: LinkCounts, pairs: PairCounts, *, no_path: int, taken: int) -> Snapshot:
    """What is neither settled nor offered elsewhere is under way; `taken` packets were offered elsewhere."""
    settled = int(pairs.arrived_packets.sum() + pairs.dropped_packets.sum())
    return Snapshot(at_s, links, pairs, no_path, int(pairs.offered_packets.sum()) + taken - settled)


def link_counts(links: Iterable[Link]) -> LinkCounts:
    """In order of the links. Their longest waits begin anew."""
    rows, waits = [], []
    for link in sorted(links, key=lambda link: link.index):
        rows.append((link.index, link.packets, link.bytes, link.dropped_queue, link.dropped_loss, link.dropped_down))
        waits.append((link.queue_s, link.queue_max_s))
        link.queue_max_s = 0.0
    index, packets, carried, full, lost, down = _columns(rows, 6)
    queue_s, queue_max_s = np.array(waits, dtype=np.float64).reshape(-1, 2).T
    return LinkCounts(
        link=index,
        packets=packets,
        bytes=carried,
        dropped_queue=full,
        dropped_loss=lost,
        dropped_down=down,
        queue_s=queue_s,
        queue_max_s=queue_max_s,
    )


def pair_counts(flows: Iterable[Flow]) -> PairCounts:
    """In order of origin and destination."""
    # There may be tens of thousands, and packets wait meanwhile: as little as can be is done for each by itself.
    found = np.fromiter(chain.from_iterable(map(_NUMBERS, flows)), dtype=np.float64).reshape(-1, 8)
    found = found[np.lexsort((found[:, 1], found[:, 0]))]
    origin, dest, offered_packets, offered_bytes, arrived_packets, arrived_bytes, dropped = found.T[:7].astype(np.int64)
    return PairCounts(
        origin=origin,
        dest=dest,
        offered_packets=offered_packets,
        offered_bytes=offered_bytes,
        arrived_packets=arrived_packets,
        arrived_bytes=arrived_bytes,
        dropped_packets=dropped,
        queue_s=found[:, 7],
    )


_NUMBERS = attrgetter(
    "origin",
    "dest",
    "offered_packets",
    "offered_bytes",
    "arrived_packets",
    "arrived_bytes",
    "dropped_packets",
    "queue_s",
)


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> Counts:
    return np.array(rows, dtype=np.int64).reshape(-1, width).T
