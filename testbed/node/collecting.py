"""The trained models of one round, as a node collects them, in one part or in several.

Takes messages, gives their mean; pure.
"""

from __future__ import annotations

from math import floor

import numpy as np

from testbed.node.fragments import Fragmentation, part_in
from testbed.node.messages import Received, UnusableModel
from testbed.node.sharing.base import usable
from testbed.node.world import Vector


class Collection:
    """What has come, by part and sender."""

    def __init__(self, fragments: Fragmentation) -> None:
        self._fragments = fragments
        self._parts: list[dict[int, Received]] = [{} for _ in range(fragments.parts)]
        self.is_closing = False
        """It is being averaged: what comes now may count or not."""

    def add(self, received: Received) -> None:
        """Keeps a part of a model; of several from one sender the last. Raises UnusableModel."""
        part = part_in(received)
        if not 0 <= part < len(self._parts):
            raise UnusableModel(received.sender, f"part {part} of a model that has {len(self._parts)}")
        self._parts[part][received.sender] = received

    @property
    def senders(self) -> list[int]:
        """Of whom anything has come, ascending."""
        return sorted({rank for part in self._parts for rank in part})

    def is_enough(self, fraction: float) -> bool:
        """Whether each part has come from this fraction of those that were sampled, rounded down, or from one."""
        wanted = max(1, floor(round(self._trained * fraction, 9)))
        return all(len(part) >= wanted for part in self._parts)

    @property
    def _trained(self) -> int:
        """How many nodes have trained: senders may differ in what they know, and the largest number counts."""
        return max(count_in(each, "trained") for part in self._parts for each in part.values())

    def sampled(self) -> list[int]:
        """The nodes that get these models: senders may differ in what they know, and the longest list counts."""
        return max(
            (_ranks_in(each) for part in self._parts for each in part.values()), key=lambda each: (len(each), each)
        )

    def mean(self, otherwise: Vector) -> Vector:
        """The mean of each parameter over the models in which it came, by rank; `otherwise` where it did not."""
        model = otherwise.copy()
        for part in self._parts:
            found = [usable(part[rank], self._fragments.decode) for rank in sorted(part)]
            for places, _ in found[:1]:
                model[places] = np.mean([values for _, values in found], axis=0, dtype=np.float64)
        return model


def count_in(received: Received, name: str) -> int:
    """A number of nodes in a message, at least 1. Raises UnusableModel."""
    value = received.message.fields.get(name)
    if type(value) is not int or value < 1:
        raise UnusableModel(received.sender, f"its `{name}` is {value!r}, not a number of nodes")
    return value


def _ranks_in(received: Received) -> list[int]:
    """The ranks of a sample in a message, at least one. Raises UnusableModel."""
    ranks = received.message.fields.get("sampled")
    if not isinstance(ranks, list) or not ranks or any(type(rank) is not int for rank in ranks):
        raise UnusableModel(received.sender, f"its `sampled` is {ranks!r}, not a list of ranks")
    return [rank for rank in ranks if type(rank) is int]
