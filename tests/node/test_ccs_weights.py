"""Weights by CCS: those of the paper on every graph for which it has any."""

from __future__ import annotations

from fractions import Fraction

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.node.ccs_weights import Weights, ccs_weights
from tests.node.small_world import Graph, full, ring

IRREGULAR: Graph = [[1, 2, 3, 4], [0], [0, 3], [0, 2, 4], [0, 3, 5], [4]]
BY_HAND = {(0, 1): "1/5", (0, 2): "1/5", (0, 3): "1/5", (0, 4): "1/5", (2, 3): "4/15", (3, 4): "4/15", (4, 5): "4/15"}
"""Node 0 has four edges and chooses first. Nodes 3 and 4 have 4/5 left for two open edges and themselves."""


def of(graph: Graph) -> Weights:
    return ccs_weights(tuple(range(len(graph))), tuple(tuple(others) for others in graph))


def matrix(graph: Graph) -> np.ndarray:
    """The whole matrix, each node's own weight included."""
    weights = of(graph)
    square = np.array([[weights[one].get(other, 0.0) for other in range(len(graph))] for one in range(len(graph))])
    return square + np.diag(1.0 - square.sum(axis=1))


def metropolis_hastings(graph: Graph) -> np.ndarray:
    square = np.zeros((len(graph), len(graph)))
    for one, others in enumerate(graph):
        for other in others:
            square[one, other] = 1 / (1 + max(len(others), len(graph[other])))
    return square + np.diag(1.0 - square.sum(axis=1))


def graph_of(drawn: networkx.Graph[int]) -> Graph:
    return [sorted(drawn[node]) for node in sorted(drawn)]


@pytest.mark.parametrize("graph", [ring(2), ring(3), ring(9), full(7), graph_of(networkx.circulant_graph(12, [1, 3]))])
def test_on_regular_graphs_they_are_those_of_metropolis_and_hastings(graph: Graph) -> None:
    np.testing.assert_allclose(matrix(graph), metropolis_hastings(graph), rtol=1e-12)


def test_on_an_irregular_graph_they_are_as_computed_by_hand() -> None:
    weights = of(IRREGULAR)
    for (one, other), weight in BY_HAND.items():
        assert weights[one][other] == weights[other][one] == pytest.approx(float(Fraction(weight)), rel=1e-12)
    assert sum(len(each) for each in weights.values()) == 2 * len(BY_HAND)
    assert np.abs(matrix(IRREGULAR) - metropolis_hastings(IRREGULAR)).max() > 0.01


def test_two_nodes_of_one_degree_agree_on_the_smaller_proposal() -> None:
    """Nodes 1 and 2 have three edges each. Node 1 has a neighbour of degree 5, and would take more for the others."""
    graph: Graph = [[1, 4, 5, 6, 7], [0, 2, 3], [1, 8, 9], [1], [0], [0], [0], [0], [2], [2]]
    weights = of(graph)
    assert weights[1][3] == pytest.approx((1 - 1 / 6) / 3)
    assert weights[1][2] == weights[2][1] == pytest.approx(1 / 4)


@given(
    st.sampled_from(["random", "hubs", "small-world"]),
    st.integers(2, 20),
    st.floats(0.1, 0.9),
    st.integers(0, 10**6),
)
def test_on_random_graphs_they_are_symmetric_and_doubly_stochastic(
    kind: str, nodes: int, density: float, seed: int
) -> None:
    drawn: networkx.Graph[int]
    match kind:
        case "random":
            drawn = networkx.gnp_random_graph(nodes, density, seed=seed)
        case "hubs":
            drawn = networkx.barabasi_albert_graph(nodes, 1 + int(density * (nodes - 2)), seed=seed)
        case _:
            drawn = networkx.watts_strogatz_graph(nodes, min(4, nodes - 1), density, seed=seed)
    square = matrix(graph_of(drawn))
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_allclose(square.sum(axis=0), 1.0, rtol=1e-12)
    assert square.diagonal().min() > 0.0
    assert all(
        (square[one, other] > 0.0) == drawn.has_edge(one, other) for one in drawn for other in drawn if one != other
    )


def test_no_node_gives_away_more_than_it_has() -> None:
    """Seven hubs leave 3/10 to each of seven nodes, which ask 3/20 each of the last one: more than all of it."""
    hubs, middle, last = range(7), range(7, 14), 14
    pairs = [(hub, node) for hub in hubs for node in middle]
    pairs += [(hub, (hub + 1) % 7) for hub in hubs] + [(node, last) for node in middle]
    graph = graph_of(networkx.Graph(pairs))
    assert [len(graph[node]) for node in (0, 7, 14)] == [9, 8, 7]
    assert len(graph[last]) * (1 - 7 / 10) / 2 > 1
    square = matrix(graph)
    np.testing.assert_array_equal(square, square.T)
    assert square[last, last] == pytest.approx(1 / 8)
    assert square.min() >= 0.0


def test_nodes_keep_their_names() -> None:
    """Learners are not always the nodes from 0 on."""
    weights = ccs_weights((3, 5, 8), ((5,), (3, 8), (5,)))
    assert {rank: sorted(each) for rank, each in weights.items()} == {3: [5], 5: [3, 8], 8: [5]}
