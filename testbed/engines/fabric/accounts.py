"""What links and pairs of nodes carried, once a second: `links.jsonl`.

Takes snapshots of the packet model, gives lines; touches that file. Every line has what happened in the seconds that it
names, and leaves out whatever nothing happened on; a second in which nothing happened at all has no line.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from testbed.network.graph import Network
from testbed.network.packets import LinkCounts, PairCounts, Snapshot, Times

MANY_PAIRS = 4096
"""When more than that have carried something they are written less often: 64 nodes have so many, and a line of them has
0.5 MB and takes 10 ms, in which no packet is carried. All pairs of 256 nodes are sixteen times as many."""
PAIRS_EVERY = 10
"""Seconds from one line with so many pairs to the next."""


class LinkLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One directed link; what is not there is 0."""

    origin: str
    dest: str
    link: int
    """Its number: two links may have the same ends."""
    bytes: int = 0
    packets: int = 0
    dropped_queue: int = 0
    dropped_loss: int = 0
    dropped_down: int = 0
    queue_mean_ms: float = 0.0
    queue_max_ms: float = 0.0


class PairLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One ordered pair of nodes, by rank."""

    origin: int
    dest: int
    bytes: int = 0
    packets: int = 0
    arrived_bytes: int = 0
    arrived_packets: int = 0
    dropped_packets: int = 0
    queue_mean_ms: float = 0.0
    """Waiting in all queues on the way, added up when they are entered, of every packet that was not dropped."""


class Second(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    t: float | None
    """Emulated seconds; 0 before the start, and null there in files of older versions."""
    seconds: float
    """Emulated seconds that the links are about, up to then."""
    links: list[LinkLine]
    pairs: list[PairLine] | None = None
    """None in a line that has none, because it is not their turn."""
    pairs_seconds: float = 0.0
    """Emulated seconds that the pairs are about, up to then."""


class Accounts:
    """Writes the lines."""

    def __init__(self, path: Path, network: Network) -> None:
        self._file = path.open("ab")
        self._names = network.names
        self._origin, self._dest = network.origin, network.dest
        self._links: dict[int, tuple[int, int, int, int, int, float]] = {}
        self._at_s = 0.0
        """Up to when links were looked at, by the snapshots' clock."""
        self._node_count = network.node_count
        self._pair_keys = np.empty(0, dtype=np.int64)
        self._pairs: Times = np.empty((0, 6))
        """What pairs had carried when they were written last, by key."""
        self._paired_at_s = 0.0
        self._unpaired = 0
        """Seconds since then."""

    def write(self, t: float | None, snapshot: Snapshot, time_scale: float, *, is_last: bool = False) -> None:
        """A line for what happened since the last one."""
        now_s, before_s = snapshot.at_s, self._at_s
        self._at_s = now_s
        pairs = self._of_pairs(snapshot.pairs, time_scale, is_last=is_last)
        line = Second(
            t=0.0 if t is None else round(t, 6),
            seconds=round((now_s - before_s) / time_scale, 6),
            links=self._of_links(snapshot.links, time_scale),
            pairs=pairs,
            pairs_seconds=0.0 if pairs is None else round((now_s - self._paired_at_s) / time_scale, 6),
        )
        if pairs is not None:
            self._paired_at_s = now_s
        if line.links or line.pairs:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _of_links(self, counts: LinkCounts, time_scale: float) -> list[LinkLine]:
        found = []
        columns = (
            counts.link,
            counts.bytes,
            counts.packets,
            counts.dropped_queue,
            counts.dropped_loss,
            counts.dropped_down,
            counts.queue_s,
            counts.queue_max_s,
        )
        for link, *numbers, queue_s, queue_max_s in zip(*(column.tolist() for column in columns), strict=True):
            now = (*numbers, queue_s)
            before = self._links.get(link, _NO_LINK)
            if now == before:
                continue
            size, packets, queue, loss, down = (new - old for new, old in zip(numbers, before[:5], strict=True))
            waited_ms = (queue_s - before[5]) / max(packets, 1) / time_scale * 1e3
            self._links[link] = now
            ends = self._names[self._origin[link]], self._names[self._dest[link]]
            longest_ms = queue_max_s / time_scale * 1e3
            found.append(
                LinkLine(*ends, link, size, packets, queue, loss, down, round(waited_ms, 4), round(longest_ms, 4))
            )
        return found

    def _of_pairs(self, counts: PairCounts, time_scale: float, *, is_last: bool) -> list[PairLine] | None:
        """Those that anything has happened on since they were written last; None when they are to wait."""
        keys = counts.origin * self._node_count + counts.dest
        columns = (
            counts.offered_bytes,
            counts.offered_packets,
            counts.arrived_bytes,
            counts.arrived_packets,
            counts.dropped_packets,
            counts.queue_s,
        )
        now = np.column_stack(columns).astype(np.float64)
        since = now.copy()
        since[np.searchsorted(keys, self._pair_keys)] -= self._pairs  # a pair that was there once is there for ever
        changed = np.flatnonzero(since.any(axis=1))
        self._unpaired += 1
        if len(changed) > MANY_PAIRS and self._unpaired < PAIRS_EVERY and not is_last:
            return None
        self._unpaired = 0
        self._pair_keys, self._pairs = keys, now
        return [
            _pair_line(key // self._node_count, key % self._node_count, numbers, time_scale)
            for key, numbers in zip(keys[changed].tolist(), since[changed].tolist(), strict=True)
        ]


def _pair_line(origin: int, dest: int, numbers: list[float], time_scale: float) -> PairLine:
    size, packets, arrived_size, arrived, dropped = map(int, numbers[:5])
    waited_ms = numbers[5] / max(packets - dropped, arrived, 1) / time_scale * 1e3
    return PairLine(origin, dest, size, packets, arrived_size, arrived, dropped, round(waited_ms, 4))


_NO_LINK = (0, 0, 0, 0, 0, 0.0)
