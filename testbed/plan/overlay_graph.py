"""Overlay graphs over the learners. The same seed gives the same graph on every machine.

Takes a kind, a number of learners and a random stream, gives each one's neighbours by position; touches nothing.
Researchers' own code is loaded and called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from random import Random

from testbed.code import call, load_object
from testbed.experiment.language import DEFAULT_DEGREE
from testbed.plan.model import PlannedOverlay
from testbed.seeds import stream
from testbed.units import shown

Graph = tuple[tuple[int, ...], ...]
"""By position: the positions of the neighbours, ascending."""
_Edges = Iterable[tuple[int, int]]

TRIES = 200
"""The most draws of a random graph until it is connected."""
SWITCHES, FEW_EDGES = 20, 200
"""Edge switches per edge, done for graphs of few edges only: larger ones have no bias to correct."""
DYNAMIC = ("regular", "ring", "small-world")
"""Kinds that can be drawn anew every round, besides own code."""
DIRECTED = frozenset({"cyclon"})
"""Kinds in which a node may have a neighbour that does not have it as one."""


class NoGraph(ValueError):
    """There is no such graph; says why and what to do."""

    def __init__(self, message: str, hint: str = "", key: str = "kind") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.key = key
        """The key of `overlay` at fault."""


def default_degree(kind: str, count: int) -> int:
    """The usual degree, or the largest below it that is possible with few learners."""
    degree = max(0, min(DEFAULT_DEGREE, count - 1))
    if kind == "small-world":
        return degree - degree % 2
    return degree - 1 if degree * count % 2 else degree


def default_fanout(count: int, *, regular: bool) -> int:
    """log2 of the number of learners, rounded up; for a regular graph the next possible degree."""
    fanout = min((count - 1).bit_length(), count - 1)
    if regular and fanout * count % 2:
        return fanout + 1 if fanout + 1 < count else fanout - 1
    return fanout


def check_degree(kind: str, count: int, degree: int, *, dynamic: bool, of: str = "learners") -> None:
    """Raises NoGraph unless there is a graph of this kind and degree; `of` says what it consists of."""
    if degree >= count:
        raise NoGraph(f"a degree of {degree} needs more than {count} {of}", f"write at most {count - 1}", "degree")
    if kind == "regular" and degree * count % 2:
        near = [each for each in (degree - 1, degree + 1) if 0 < each < count]
        raise NoGraph(
            f"no graph over {count} {of} has degree {degree} everywhere: {count} × {degree} is odd",
            "write " + " or ".join(str(each) for each in near),
            "degree",
        )
    if kind == "regular" and degree == 1 and count > 2 and not dynamic:
        raise NoGraph(f"with degree 1, {count} {of} fall apart into pairs", "write 2, or make it dynamic", "degree")
    if kind == "small-world" and degree % 2:
        hint = f"write {degree - 1} or {degree + 1}" if degree > 1 else "write 2"
        raise NoGraph(f"a small world has an even degree, not {degree}", hint, "degree")


def static_graph(
    kind: str, count: int, degree: int, seed: int, rewire: float = 0.1, *, shuffled: bool = False
) -> Graph:
    """A connected graph for the whole run; a ring is `shuffled` or in the order of positions."""
    random = stream(seed, "topology", "static")
    match kind:
        case "ring":
            return ring(_shuffled(count, random) if shuffled else range(count))
        case "full":
            return full(count)
        case "star":
            return graph_of(count, ((0, other) for other in range(1, count)))
        case "small-world":
            return _connected(kind, lambda: small_world(count, degree, rewire, random))
        case "regular":
            return _regular(count, degree, random)
    raise ValueError(kind)


def dynamic_graph(overlay: PlannedOverlay, count: int, seed: int, round_: int) -> Graph:
    """The graph of one round. Neighbours by position among the learners."""
    return _dynamic(overlay.kind, overlay.code, count, overlay.degree or 0, overlay.rewire, seed, round_)


def regular_graph(count: int, degree: int, seed: int, round_: int) -> Graph:
    """A random regular graph of one round, the same as a dynamic overlay of that degree has."""
    return _dynamic("regular", None, count, degree, 0.0, seed, round_)


@lru_cache(maxsize=8)
def _dynamic(kind: str, code: str | None, count: int, degree: int, rewire: float, seed: int, round_: int) -> Graph:
    random = stream(seed, "topology", str(round_))
    if code is not None:
        return code_graph(code, count, degree, round_, random)
    match kind:
        case "ring":
            return ring(_shuffled(count, random))
        case "small-world":
            order = _shuffled(count, random)
            world = _connected(kind, lambda: small_world(count, degree, rewire, random))
            return graph_of(count, ((order[one], order[other]) for one, other in edges(world)))
        case "regular" if degree == 1:
            order = _shuffled(count, random)
            return graph_of(count, zip(order[::2], order[1::2], strict=True))
        case "regular":
            return _regular(count, degree, random)
    raise ValueError(kind)


def graph_of(count: int, pairs: _Edges) -> Graph:
    """The graph with these edges, each in both directions."""
    neighbours: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        neighbours[one].add(other)
        neighbours[other].add(one)
    return tuple(tuple(sorted(each)) for each in neighbours)


def edges(graph: Graph) -> Iterator[tuple[int, int]]:
    """Every edge once, the lower position first."""
    return ((one, other) for one, others in enumerate(graph) for other in others if one < other)


def components(graph: Graph) -> int:
    """The number of connected components."""
    seen = bytearray(len(graph))
    parts = 0
    for start in range(len(graph)):
        if seen[start]:
            continue
        parts += 1
        seen[start] = 1
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()]:
                if not seen[other]:
                    seen[other] = 1
                    waiting.append(other)
    return parts


def diameter(graph: Graph) -> int | None:
    """The longest of the shortest paths, in edges; None if the graph is not connected."""
    # Sets of positions as the bits of one number: a step of all searches at once costs little.
    reached = [1 << position for position in range(len(graph))]
    everybody = (1 << len(graph)) - 1
    steps = 0
    while any(each != everybody for each in reached):
        wider = list(reached)
        for position, others in enumerate(graph):
            for other in others:
                wider[position] |= reached[other]
        if wider == reached:
            return None
        reached = wider
        steps += 1
    return steps


def ring(order: Iterable[int]) -> Graph:
    around = list(order)
    closing = [(around[-1], around[0])] if len(around) > 2 else []
    return graph_of(len(around), [*pairwise(around), *closing])


def full(count: int) -> Graph:
    everybody = tuple(range(count))
    return tuple(everybody[:position] + everybody[position + 1 :] for position in range(count))


def small_world(count: int, degree: int, rewire: float, random: Random) -> Graph:
    """Watts and Strogatz: a ring of `degree` nearest neighbours with some edges rewired at random."""
    neighbours: list[set[int]] = [set() for _ in range(count)]
    near = [(one, (one + step) % count) for step in range(1, degree // 2 + 1) for one in range(count)]
    for one, other in near:
        neighbours[one].add(other)
        neighbours[other].add(one)
    for one, other in near:
        if random.random() >= rewire or len(neighbours[one]) >= count - 1 or other not in neighbours[one]:
            continue
        new = random.randrange(count)
        while new == one or new in neighbours[one]:
            new = random.randrange(count)
        neighbours[one].remove(other)
        neighbours[other].remove(one)
        neighbours[one].add(new)
        neighbours[new].add(one)
    return tuple(tuple(sorted(each)) for each in neighbours)


def code_graph(code: str, count: int, degree: int, round_: int, random: Random) -> Graph:
    """The graph of a researcher's function `overlay(count, degree, round, random)`, which gives pairs of positions."""
    function = load_object(code)
    if not callable(function):
        raise NoGraph(f"`{code}` is not a function", "write def overlay(count, degree, round, random): …")
    given = call(code, function, count, degree, round_, random)
    if not isinstance(given, Iterable):
        raise NoGraph(f"`{code}` gave no list of pairs", "give pairs of positions, such as [(0, 1), (1, 2)]")
    return graph_of(count, [_pair(code, pair, count) for pair in given])


def _pair(code: str, pair: object, count: int) -> tuple[int, int]:
    if isinstance(pair, tuple | list) and len(pair) == 2:
        one, other = pair
        if isinstance(one, int) and isinstance(other, int) and 0 <= one < count and 0 <= other < count and one != other:
            return one, other
    raise NoGraph(
        f"`{code}` gave {shown(str(pair))}, which is no pair of two different positions",
        f"positions are whole numbers from 0 to {count - 1}",
    )


def _shuffled(count: int, random: Random) -> list[int]:
    order = list(range(count))
    random.shuffle(order)
    return order


def _connected(kind: str, draw: Callable[[], Graph]) -> Graph:
    for _ in range(TRIES):
        graph = draw()
        if components(graph) <= 1:
            return graph
    raise NoGraph(f"{TRIES} draws of a {kind} graph were all in several parts", "give more `degree`", "degree")


def _regular(count: int, degree: int, random: Random) -> Graph:
    """A connected random regular graph."""
    if degree >= count - 1:
        return full(count)
    if degree == 2:  # most draws are not connected; the connected ones are exactly the rings
        return ring(_shuffled(count, random))
    if 2 * degree >= count:  # the complement is sparse, so it is drawn instead; such a dense graph is always connected
        left_out = _pairing(count, count - 1 - degree, random)
        _switch(left_out, random)
        everybody = set(range(count))
        return tuple(tuple(sorted(everybody - left_out[each] - {each})) for each in range(count))
    return _connected("regular", lambda: tuple(tuple(sorted(each)) for each in _pairing(count, degree, random)))


def _pairing(count: int, degree: int, random: Random) -> list[set[int]]:
    """The pairing model: every position has `degree` stubs; random pairs are joined, unsuitable ones redrawn."""
    while True:
        neighbours: list[set[int]] = [set() for _ in range(count)]
        ends = [position for position in range(count) for _ in range(degree)]
        while ends:
            random.shuffle(ends)
            left: list[int] = []
            for one, other in zip(ends[::2], ends[1::2], strict=True):
                if one == other or other in neighbours[one]:
                    left += (one, other)
                else:
                    neighbours[one].add(other)
                    neighbours[other].add(one)
            if len(left) == len(ends) and not _fits(left, neighbours):
                break
            ends = left
        else:
            return neighbours


def _switch(neighbours: list[set[int]], random: Random) -> None:
    """Makes a random graph uniform among all graphs with its degrees.

    `_pairing` favours some graphs if there are few: with six nodes of degree two, two triangles come twice too often.
    Two random edges exchange ends if that gives a graph; done often enough, the initial draw has no influence.
    """
    tied = [(one, other) for one, others in enumerate(neighbours) for other in sorted(others) if one < other]
    for _ in range(SWITCHES * len(tied) if 1 < len(tied) <= FEW_EDGES else 0):
        at, place = random.sample(range(len(tied)), 2)
        (one, other), (third, fourth) = tied[at], tied[place]
        if random.getrandbits(1):
            third, fourth = fourth, third
        if len({one, other, third, fourth}) < 4 or fourth in neighbours[one] or third in neighbours[other]:
            continue
        for left, was, now in ((one, other, fourth), (other, one, third), (third, fourth, other), (fourth, third, one)):
            neighbours[left].remove(was)
            neighbours[left].add(now)
        tied[at], tied[place] = (one, fourth), (other, third)


def _fits(ends: list[int], neighbours: list[set[int]]) -> bool:
    """Whether any two of the remaining stubs can still be joined."""
    loose = sorted(set(ends))
    return any(other not in neighbours[one] for place, one in enumerate(loose) for other in loose[place + 1 :])
