"""Two sides of an overlay: every node keeps half of its neighbours, and what was connected stays connected."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.plan.files import split
from testbed.plan.overlay_graph import Graph, NoGraph, components, edges, full, graph_of, ring, static_graph
from testbed.plan.pairing import asking_side, partners_of
from tests.runtimes.sim_runs import plan_of, star


def across(graph: Graph) -> Graph:
    asks = asking_side(graph)
    return graph_of(len(graph), ((one, other) for one, other in edges(graph) if asks[one] != asks[other]))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 14))
    pairs = [(one, other) for one in range(count) for other in range(one)]
    return graph_of(count, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


@given(graphs())
def test_every_node_keeps_half_of_its_neighbours_and_all_that_it_can_reach(graph: Graph) -> None:
    kept = across(graph)
    for others, partners in zip(graph, kept, strict=True):
        assert 2 * len(partners) >= len(others)
    assert components(kept) == components(graph)


@given(graphs(), st.integers(1, 14))
def test_a_graph_of_two_sides_keeps_all_its_edges(graph: Graph, split_at: int) -> None:
    sides = graph_of(
        len(graph), ((one, other) for one, other in edges(graph) if (one < split_at) != (other < split_at))
    )
    assert across(sides) == sides


@pytest.mark.parametrize("count", range(2, 12))
def test_rings_and_full_graphs_lose_as_little_as_possible(count: int) -> None:
    lost = count % 2 if count > 2 else 0
    assert len(list(edges(across(ring(range(count)))))) == len(list(edges(ring(range(count))))) - lost
    assert sum(asking_side(full(count))) == (count + 1) // 2, "as many ask as answer, or one more"
    assert len(list(edges(across(full(count))))) == (count // 2) * ((count + 1) // 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_local_search_comes_near_to_the_best_cut(seed: int) -> None:
    graph = static_graph("regular", 10, 3, seed)
    best = max(
        sum(sides[one] != sides[other] for one, other in edges(graph)) for sides in product((False, True), repeat=10)
    )
    assert len(list(edges(across(graph)))) >= 0.8 * best


def test_parts_that_come_apart_are_joined() -> None:
    """Nodes move to where they have most edges, and thereby two parts lose all edges between them."""
    graph = graph_of(7, [(0, 1), (1, 2), (2, 3), (0, 4), (1, 4), (0, 5), (1, 5), (0, 6), (1, 6)])
    assert components(across(graph)) == 1
    assert len(list(edges(across(graph)))) == 8


def test_two_triangles_stay_connected() -> None:
    """Each can be cut so that their only bridge is within a side; then one of them changes sides."""
    for bridge in product((0, 1, 2), (3, 4, 5)):
        graph = graph_of(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), bridge])
        assert components(across(graph)) == 1


def test_the_larger_side_asks() -> None:
    """The leaves of a star, whose hub answers: else there would be one exchange at a time in all."""
    assert asking_side(static_graph("star", 5, 0, 1)) == (False, True, True, True, True)
    assert asking_side(graph_of(5, [(2, 0), (2, 1), (2, 3), (2, 4)])) == (True, True, False, True, True)
    assert asking_side(ring(range(4))) == (False, True, False, True)
    assert asking_side(graph_of(5, [(0, 1), (2, 3)])) == (False, True, False, True, False)


def test_every_node_knows_its_side_and_its_partners_by_the_plan() -> None:
    plan = plan_of(star(7), algorithm={"name": "adpsgd"}, overlay={"kind": "regular", "degree": 4})
    shares = list(split(plan))
    found = [partners_of(share) for share in shares]
    for share, (asks, partners) in zip(shares, found, strict=True):
        assert share.neighbours is not None
        assert set(partners) <= set(share.neighbours)
        assert len(partners) >= 2
        for partner in partners:
            theirs, back = found[partner]
            assert theirs != asks
            assert share.node.rank in back


def test_an_overlay_that_changes_has_no_sides() -> None:
    (share, *_) = split(plan_of(star(6), overlay={"dynamic": True, "degree": 4}))
    with pytest.raises(NoGraph, match="cannot be divided into two sides"):
        partners_of(share)
