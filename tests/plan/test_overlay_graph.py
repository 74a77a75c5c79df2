"""Graphs over the learners: of the right shape, connected, and the same on every machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.code import CodeProblem
from testbed.plan.model import PlannedOverlay
from testbed.plan.overlay_files import read_edges
from testbed.plan.overlay_graph import (
    Graph,
    NoGraph,
    check_degree,
    components,
    default_degree,
    diameter,
    dynamic_graph,
    edges,
    full,
    graph_of,
    ring,
    static_graph,
)
from tests.examples import examples


def planned(kind: str, degree: int | None = None, code: str | None = None) -> PlannedOverlay:
    return PlannedOverlay(
        kind=kind, degree=degree, dynamic=True, peers="seed", sampler=None, neighbours=None, rewire=0.1, code=code
    )


def is_proper(graph: Graph) -> bool:
    return all(
        list(others) == sorted(set(others)) and one not in others and all(one in graph[other] for other in others)
        for one, others in enumerate(graph)
    )


@st.composite
def _sizes(draw: st.DrawFn) -> tuple[int, int]:
    count = draw(st.integers(3, 40))
    degree = draw(st.integers(2, count - 1).filter(lambda degree: degree * count % 2 == 0))
    return count, degree


@settings(max_examples=examples(200), deadline=None)
@given(_sizes(), st.integers(0, 10**9))
def test_regular_graphs_are_regular_and_connected(size: tuple[int, int], seed: int) -> None:
    count, degree = size
    graph = static_graph("regular", count, degree, seed)
    assert {len(others) for others in graph} == {degree}
    assert len(graph) == count
    assert is_proper(graph)
    assert components(graph) == 1
    assert graph == static_graph("regular", count, degree, seed)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(5, 40), st.sampled_from([2, 4]), st.floats(0, 1), st.integers(0, 10**9))
def test_small_worlds_keep_their_number_of_edges(count: int, degree: int, rewire: float, seed: int) -> None:
    try:
        graph = static_graph("small-world", count, degree, seed, rewire)
    except NoGraph:
        assert degree == 2  # most rewired rings are in several parts
        return
    assert is_proper(graph)
    assert components(graph) == 1
    assert len(list(edges(graph))) == count * degree // 2


def test_a_small_world_without_rewiring_is_a_lattice() -> None:
    assert static_graph("small-world", 7, 4, 1, 0.0)[0] == (1, 2, 5, 6)
    assert static_graph("small-world", 40, 4, 1, 0.5) != static_graph("small-world", 40, 4, 1, 0.0)


def test_the_same_seed_gives_the_same_graph_on_every_machine() -> None:
    """Written down once: another version of Python, or of this code, must not draw otherwise."""
    assert static_graph("regular", 8, 3, 1) == GOLDEN
    assert dynamic_graph(planned("regular", 3), 8, 1, 7) == GOLDEN_ROUND_7


def test_rounds_differ_and_repeat() -> None:
    overlay = planned("regular", 5)
    graphs = [dynamic_graph(overlay, 64, 3, round_) for round_ in range(20)]
    assert len(set(graphs)) == 20
    assert all(components(graph) == 1 and is_proper(graph) for graph in graphs)
    assert dynamic_graph(overlay, 64, 3, 0) == graphs[0]
    assert dynamic_graph(overlay, 64, 4, 0) != graphs[0]


def test_random_graphs_favour_nobody() -> None:
    """Over many rounds each pair meets as often as any other: 5 of 15 others each round."""
    met: Counter[tuple[int, int]] = Counter()
    rounds = 600
    for round_ in range(rounds):
        met.update(edges(dynamic_graph(planned("regular", 5), 16, 1, round_)))
    assert len(met) == 16 * 15 // 2
    expected = rounds * 5 / 15
    deviation = (rounds * (1 / 3) * (2 / 3)) ** 0.5
    assert all(abs(times - expected) < 4.5 * deviation for times in met.values())


def test_dynamic_pairs_and_rings() -> None:
    pairs = dynamic_graph(planned("regular", 1), 10, 1, 0)
    assert {len(others) for others in pairs} == {1}
    around = dynamic_graph(planned("ring"), 10, 1, 0)
    assert {len(others) for others in around} == {2}
    assert components(around) == 1
    assert around != ring(range(10))


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        *(("regular", n, d) for n, d in [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5), (7, 4), (8, 5), (256, 5)]),
        *(("small-world", n, d) for n, d in [(2, 0), (3, 2), (5, 4), (100, 4)]),
    ],
)
def test_the_default_degree_is_possible(kind: str, count: int, expected: int) -> None:
    assert default_degree(kind, count) == expected
    check_degree(kind, count, expected, dynamic=False)


@pytest.mark.parametrize(
    ("kind", "count", "degree", "dynamic"),
    [("regular", 5, 3, False), ("regular", 4, 4, True), ("regular", 4, 1, False), ("small-world", 9, 3, False)],
)
def test_degrees_that_no_graph_has(kind: str, count: int, degree: int, dynamic: bool) -> None:
    with pytest.raises(NoGraph) as caught:
        check_degree(kind, count, degree, dynamic=dynamic)
    assert caught.value.key == "degree"
    assert caught.value.hint


def test_plain_shapes() -> None:
    assert static_graph("ring", 1, 0, 1) == ((),)
    assert static_graph("ring", 2, 0, 1) == ((1,), (0,))
    assert static_graph("ring", 4, 0, 1) == ((1, 3), (0, 2), (1, 3), (0, 2))
    assert static_graph("star", 4, 0, 1) == ((1, 2, 3), (0,), (0,), (0,))
    assert static_graph("full", 3, 0, 1) == ((1, 2), (0, 2), (0, 1))


def test_distances() -> None:
    assert diameter(full(5)) == 1
    assert diameter(static_graph("ring", 9, 0, 1)) == 4
    assert diameter(((),)) == 0
    apart = graph_of(4, [(0, 1), (2, 3)])
    assert components(apart) == 2
    assert diameter(apart) is None


def test_a_graph_by_own_code(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "def overlay(count, degree, round, random):\n"
        "    return [(0, other) for other in range(1, count)] if round else [(0, count)]\n"
        "def broken(count, degree, round, random):\n    return 1 / 0\n"
    )
    assert dynamic_graph(planned("code", code=f"{path}:overlay"), 4, 1, 1) == ((1, 2, 3), (0,), (0,), (0,))
    with pytest.raises(NoGraph, match="no pair of two different positions"):
        dynamic_graph(planned("code", code=f"{path}:overlay"), 4, 1, 0)
    with pytest.raises(CodeProblem, match=r"own\.py:4"):
        dynamic_graph(planned("code", code=f"{path}:broken"), 4, 1, 0)


GOLDEN: Graph = ((4, 5, 6), (4, 6, 7), (3, 6, 7), (2, 5, 7), (0, 1, 5), (0, 3, 4), (0, 1, 2), (1, 2, 3))
GOLDEN_ROUND_7: Graph = ((3, 4, 7), (2, 3, 5), (1, 3, 4), (0, 1, 2), (0, 2, 6), (1, 6, 7), (4, 5, 7), (0, 5, 6))


@pytest.mark.parametrize(
    ("count", "degree", "kinds"),
    [
        # All labelled graphs there are, by how many cliques of `part` nodes their complement falls into.
        (6, 3, {True: 10, False: 60}),  # two triangles (K3,3 itself), or a hexagon
        (7, 4, {True: 105, False: 360}),  # a triangle and a square, or a heptagon
    ],
)
def test_dense_regular_graphs_are_drawn_evenly(count: int, degree: int, kinds: dict[bool, int]) -> None:
    """What is left out falls apart as often as it does among all graphs."""
    draws = 3000
    apart = 0
    for round_ in range(draws):
        graph = dynamic_graph(planned("regular", degree), count, 5, round_)
        left_out = graph_of(count, ((a, b) for a in range(count) for b in range(a) if b not in graph[a]))
        apart += components(left_out) > 1
    share = kinds[True] / sum(kinds.values())
    assert abs(apart / draws - share) < 4.5 * (share * (1 - share) / draws) ** 0.5


def test_a_ring_is_in_the_topology_s_order_or_in_a_random_one() -> None:
    assert static_graph("ring", 8, 2, 3) == ring(range(8))
    shuffled = static_graph("ring", 8, 2, 3, shuffled=True)
    assert shuffled != ring(range(8))
    assert static_graph("ring", 8, 2, 3, shuffled=True) == shuffled
    assert static_graph("ring", 8, 2, 4, shuffled=True) != shuffled
    assert all(len(others) == 2 for others in shuffled)
    assert components(shuffled) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a b\nb c",
        "0 1 {}\n1 2 {'weight': 2.5}",
        "0 1 2.5\n1 2 0.5",
        "a,b\nb,c",
        "3\n0 1\n1 2",
        "a: b\nb: c",
    ],
)
def test_files_of_edges_as_people_and_networkx_write_them(text: str) -> None:
    assert read_edges(text, {"a": 0, "b": 1, "c": 2}, "edges.txt") == [(0, 1), (1, 2)]


def test_whole_numbers_in_a_file_of_edges_are_nodes() -> None:
    ranks = {"a": 0, "b": 1, "c": 2}
    assert read_edges("0 1 2", ranks, "edges.txt") == [(0, 1), (0, 2)]
    with pytest.raises(NoGraph, match=r"edges\.txt:1: there is no node `2\.5`"):
        read_edges("0 1 2 2.5", ranks, "edges.txt")
