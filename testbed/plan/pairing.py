"""The two sides of an overlay, for algorithms in which one side asks and the other answers.

Takes a graph or a `NodePlan`, gives each node's side and its partners on the other one; pure. A graph that has two
sides already keeps all its edges. From any other one, edges within a side are left out: a local search looks for two
sides with many edges between them. Each of its moves adds edges between the sides, so it ends.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from testbed.plan.model import NodePlan
from testbed.plan.overlay_graph import Graph, NoGraph


def partners_of(plan: NodePlan) -> tuple[bool, tuple[int, ...]]:
    """Whether a learner is on the side that asks, and the ranks of its neighbours on the other side."""
    table = plan.overlay.neighbours
    if table is None or plan.node.learner is None:
        raise NoGraph("the overlay is not the same in every round: its nodes cannot be divided into two sides")
    sides = dict(zip(plan.learners, _sides(plan.learners, table), strict=True))
    own = sides[plan.node.rank]
    return own, tuple(rank for rank in table[plan.node.learner] if sides[rank] != own)


# All nodes of one process have the same overlay.
@lru_cache(maxsize=2)
def _sides(learners: tuple[int, ...], table: tuple[tuple[int, ...], ...]) -> tuple[bool, ...]:
    position = {rank: at for at, rank in enumerate(learners)}
    return asking_side(tuple(tuple(position[rank] for rank in ranks) for ranks in table))


def asking_side(graph: Graph) -> tuple[bool, ...]:
    """Whether a node is on the side that asks, by position.

    At least half of a node's neighbours are on the other side. The edges between the sides connect what the graph
    connects. The larger side of each connected part asks; of two equal ones, that without its lowest position.
    """
    side = _alternating(graph)
    _move_nodes(graph, side)
    while _join_parts(graph, side):
        pass  # no edge between the sides is lost, so every node keeps its half
    for part in _parts(graph):
        true = sum(side[at] for at in part)
        if (2 * true < len(part) and len(part) > 1) or (2 * true == len(part) and side[part[0]]):
            for at in part:
                side[at] = not side[at]
    return tuple(side)


def _alternating(graph: Graph) -> list[bool]:
    """Sides by the distance from the lowest position of each connected part, even or odd."""
    side: list[bool | None] = [None] * len(graph)
    for start in range(len(graph)):
        if side[start] is not None:
            continue
        side[start] = False
        waiting = deque([start])
        while waiting:
            at = waiting.popleft()
            for other in graph[at]:
                if side[other] is None:
                    side[other] = not side[at]
                    waiting.append(other)
    return [bool(each) for each in side]


def _move_nodes(graph: Graph, side: list[bool]) -> None:
    """Moves nodes to the other side as long as one has most of its neighbours on its own."""
    inside = [sum(side[other] == side[at] for other in others) for at, others in enumerate(graph)]
    moved = True
    while moved:
        moved = False
        for at, others in enumerate(graph):
            if 2 * inside[at] > len(others):
                moved, side[at] = True, not side[at]
                inside[at] = len(others) - inside[at]
                for other in others:
                    inside[other] += 1 if side[other] == side[at] else -1


def _join_parts(graph: Graph, side: list[bool]) -> bool:
    """Joins two parts between which all edges are within a side, if there are such: one of them changes sides."""
    across = tuple(tuple(other for other in others if side[other] != side[at]) for at, others in enumerate(graph))
    parts = _parts(across)
    part_of = {at: number for number, part in enumerate(parts) for at in part}
    for at, others in enumerate(graph):
        for other in others:
            if part_of[at] != part_of[other]:
                for each in parts[part_of[other]]:
                    side[each] = not side[each]
                return True
    return False


def _parts(graph: Graph) -> list[list[int]]:
    """The positions of each connected part, ascending."""
    found: list[list[int]] = []
    seen = bytearray(len(graph))
    for start in range(len(graph)):
        if seen[start]:
            continue
        seen[start] = 1
        part = [start]
        for at in part:
            for other in graph[at]:
                if not seen[other]:
                    seen[other] = 1
                    part.append(other)
        found.append(sorted(part))
    return found
