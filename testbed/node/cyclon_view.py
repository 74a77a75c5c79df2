"""CYCLON's view of a node: the other nodes that it knows, how old that knowledge is, and how two nodes shuffle it.

Voulgaris, Gavidia and van Steen, "CYCLON: Inexpensive Membership Management for Unstructured P2P Overlays", Journal of
Network and Systems Management 2005 (the enhanced shuffle). Takes entries and a random stream, gives entries; pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import NamedTuple


class Entry(NamedTuple):
    """A node, and the number of shuffles since it made this entry itself."""

    rank: int
    age: int


class View:
    """The view of one node: at most `size` entries of different other nodes."""

    def __init__(self, own: int, size: int, shuffle: int, random: Random, entries: Iterable[Entry] = ()) -> None:
        """`shuffle`: the most entries of one message."""
        self._own = own
        self._size = size
        self._shuffle = shuffle
        self._random = random
        self._ages = dict(entries)
        self._partner: int | None = None
        """The node that was asked last, until it answers."""
        self._sent: dict[int, list[int]] = {}
        """By node that has not answered: what was sent to it, itself first, whose entry made place for the own one."""
        self._shuffles = 0
        self._silent: dict[int, int] = {}
        """By node that has not answered: the number of the shuffle in which it was asked."""

    @property
    def entries(self) -> list[Entry]:
        """By rank."""
        return [Entry(*each) for each in sorted(self._ages.items())]

    def ask(self) -> tuple[int, list[Entry]] | None:
        """Begins a shuffle: the node to ask and what to send to it; None if no node is known.

        The node that was asked before is removed if it has not answered since.
        """
        if self._partner is not None:
            self._ages.pop(self._partner, None)
            self._silent[self._partner] = self._shuffles
            self._partner = None
        if not self._ages:
            return None
        self._shuffles += 1
        for rank in self._ages:
            self._ages[rank] += 1
        oldest = max(self._ages.values())
        partner = self._random.choice([entry.rank for entry in self.entries if entry.age == oldest])
        others = self._some(self._shuffle - 1, partner)
        self._partner, self._sent[partner] = partner, [partner, *others]
        return partner, [Entry(self._own, 0), *self._of(others)]

    def answer(self, sender: int, received: Iterable[Entry]) -> list[Entry]:
        """What another node that has sent these entries gets for them. Ages stay as they are."""
        self._silent.pop(sender, None)
        sent = self._some(self._shuffle, sender)
        entries = self._of(sent)
        self._take(received, sent)
        return entries

    def answered(self, sender: int, received: Iterable[Entry]) -> None:
        """Ends a shuffle; an answer that was not asked for changes nothing."""
        sent = self._sent.pop(sender, None)
        if sent is None:
            return
        self._silent.pop(sender, None)
        if self._partner == sender:
            self._partner = None
        self._take(received, sent)
        if sender in self._ages or len(self._ages) < self._size:  # nothing took its place, and it lives
            self._ages[sender] = 0

    def fill(self, ranks: Sequence[int]) -> None:
        """Begins anew with these nodes, as far as there are places."""
        self._take([Entry(rank, 0) for rank in ranks], [])

    def forget(self, ranks: Collection[int]) -> None:
        """Removes nodes that answer no more."""
        for rank in self._ages.keys() & ranks:
            del self._ages[rank]

    def _take(self, received: Iterable[Entry], sent: list[int]) -> None:
        """Entries of unknown nodes come into empty places, then into those of entries that were sent away."""
        unknown = {rank: age for rank, age in received if self._is_new(rank, age)}
        replaced = [rank for rank in sent if rank in self._ages]
        for rank, age in unknown.items():
            if len(self._ages) >= self._size:
                if not replaced:
                    break
                del self._ages[replaced.pop(0)]
            self._ages[rank] = age

    def _is_new(self, rank: int, age: int) -> bool:
        """Whether an entry is of an unknown node, and not from before that node was silent.

        In small networks with empty places, dead nodes would be handed on for ever.
        """
        if rank == self._own or rank in self._ages:
            return False
        return rank not in self._silent or age < self._shuffles - self._silent[rank]

    def _some(self, most: int, without: int) -> list[int]:
        """Random nodes of the view. The other one of a shuffle would discard its own entry: it is left out."""
        known = sorted(self._ages.keys() - {without})
        return self._random.sample(known, min(most, len(known)))

    def _of(self, ranks: Iterable[int]) -> list[Entry]:
        return [Entry(rank, self._ages[rank]) for rank in ranks]
