"""Virtual nodes: each node of a run stands for several in a random regular graph, another one every round.

Takes the run's seed and ranks, gives links between virtual nodes; pure. All nodes draw the same graph, so each knows
what it is due without any message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from testbed.plan.overlay_graph import Graph, check_degree, regular_graph


class Link(NamedTuple):
    """A virtual node of one node, and its neighbour, which may belong to the same node."""

    own: int
    """Which virtual node of the one node it is."""
    rank: int
    """Whose virtual node the neighbour is."""
    other: int
    """Which one of that node's."""


class VirtualNodes:
    """The virtual nodes of a run: `count` for each learner, each with `degree` neighbours."""

    def __init__(self, learners: tuple[int, ...], count: int, degree: int, seed: int) -> None:
        """Raises NoGraph unless there is such a graph."""
        check_degree("regular", len(learners) * count, degree, dynamic=True, of="virtual nodes")
        self._learners = learners
        self._count = count
        self._degree = degree
        self._seed = seed

    def links(self, rank: int, round_: int) -> Iterator[Link]:
        """The links of one node's virtual nodes in a round: by virtual node, then by neighbour."""
        graph, first = self._graph(round_), self._learners.index(rank) * self._count
        for own in range(self._count):
            for neighbour in graph[first + own]:
                position, other = divmod(neighbour, self._count)
                yield Link(own, self._learners[position], other)

    def _graph(self, round_: int) -> Graph:
        return regular_graph(len(self._learners) * self._count, self._degree, self._seed, round_)
