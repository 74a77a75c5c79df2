"""Pieces at the end of their last link, until they are handed over to their destination.

Takes pieces of trains, gives them in groups when they are due; touches nothing. Pieces of a segment that are due within
its window of the first of them are a group, which is due when the last of them is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from heapq import heappop, heappush

from testbed.network.packets.train import GONE, Train


class Ends:
    """Of all links of one network."""

    def __init__(self) -> None:
        self._trains: dict[int, Train] = {}
        """By key; one train for all pieces of a segment, however they came."""
        self._due: list[tuple[float, int, int, Train]] = []
        """A heap: when the next group of a train is due, key, piece. An entry may be too early."""

    def clear(self) -> None:
        self._trains.clear()
        self._due.clear()

    def trains(self) -> list[Train]:
        return list(self._trains.values())

    def next_s(self) -> float:
        """Nothing is due before; infinite where nothing is here. It may be too early."""
        return self._due[0][0] if self._due else math.inf

    def add(self, train: Train, times: list[float], departs: list[float], pieces: list[int]) -> None:
        """These pieces of a train have been carried by their last link."""
        there = self._trains.get(train.key)
        if there is not None and (times[0], pieces[0]) > (there.times[-1], there.pieces[-1]):
            there.extend(times, departs, pieces)  # what is in the heap is early enough
            return
        if there is None:
            hop = len(train.route.links)
            there = Train(train.route, train.key, train.sizes, train.window_s, hop, times, departs, pieces)
            self._trains[train.key] = there
        else:
            there.merge(times, departs, pieces)
        self._expect(there)

    def take(self, to_s: float) -> Iterator[tuple[Train, list[int], float]]:
        """The groups that are due up to and including a time: of which train, their pieces, and when they are due."""
        due = self._due
        while due and due[0][0] <= to_s:
            due_s, _, _, train = heappop(due)
            if train.hop == GONE:
                continue
            times, start = train.times, train.pos
            end = bisect_right(times, times[start] + train.window_s, start)
            if times[end - 1] > due_s:
                # More of them have come into sight.
                self._expect(train)
                continue
            train.pos = end
            if end < len(times):
                self._expect(train)
            else:
                train.hop = GONE
                del self._trains[train.key]
            yield train, train.pieces[start:end], times[end - 1]

    def _expect(self, train: Train) -> None:
        times, at = train.times, train.pos
        end = bisect_right(times, times[at] + train.window_s, at)
        heappush(self._due, (times[end - 1], train.key, train.pieces[at], train))
