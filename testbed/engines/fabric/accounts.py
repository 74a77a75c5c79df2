"""What links and pairs of nodes carried, once a second: `links.jsonl`.

Takes snapshots of the packet model, gives lines; touches that file. Every line has what happened since the line before
(for pairs: since the line before that has pairs), and leaves out whatever nothing happened on.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from testbed.network.graph import Network
from testbed.network.packets import LinkCounts, PairCounts, Snapshot

PAIRS_EVERY = 10
"""Lines from one with pairs to the next: there are many more of them than links."""


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


class Second(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    t: float | None
    """Emulated seconds; None before the start."""
    links: list[LinkLine]
    pairs: list[PairLine] | None = None
    """None in a line that has none, because it is not their turn."""


class Accounts:
    """Writes the lines."""

    def __init__(self, path: Path, network: Network) -> None:
        self._file = path.open("ab")
        self._names = network.names
        self._origin, self._dest = network.origin, network.dest
        self._links: dict[int, tuple[int, int, int, int, int, float]] = {}
        self._pairs: dict[tuple[int, int], tuple[int, int, int, int, int]] = {}
        self._turn = 0

    def write(self, t: float | None, snapshot: Snapshot, time_scale: float, *, is_last: bool = False) -> None:
        """A line for what happened since the last one."""
        self._turn += 1
        with_pairs = is_last or self._turn % PAIRS_EVERY == 0
        line = Second(
            t=None if t is None else round(t, 6),
            links=self._of_links(snapshot.links, time_scale),
            pairs=self._of_pairs(snapshot.pairs) if with_pairs else None,
        )
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

    def _of_pairs(self, counts: PairCounts) -> list[PairLine]:
        found = []
        columns = (
            counts.origin,
            counts.dest,
            counts.offered_bytes,
            counts.offered_packets,
            counts.arrived_bytes,
            counts.arrived_packets,
            counts.dropped_packets,
        )
        for origin, dest, *numbers in np.column_stack(columns).tolist():
            now = tuple(numbers)
            before = self._pairs.get((origin, dest), _NO_PAIR)
            if now != before:
                self._pairs[origin, dest] = now
                found.append(PairLine(origin, dest, *(new - old for new, old in zip(now, before, strict=True))))
        return found


_NO_LINK = (0, 0, 0, 0, 0, 0.0)
_NO_PAIR = (0, 0, 0, 0, 0)
