"""Averaging weights by CCS, the Communication Coefficient Selection of SWIFT.

Takes an undirected graph, gives the weight of every edge; pure. All nodes compute the same from the plan's overlay; in
the paper they exchange messages for it before they start. Weights are symmetric, and those of a node add up to less
than 1; the rest is for its own model. So averaging with them is doubly stochastic on every undirected graph. On a
regular graph all are 1 / (degree + 1), as Metropolis-Hastings weights are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

Weights = Mapping[int, Mapping[int, float]]
"""By node: the weights of its neighbours."""


# All nodes of one process need the same.
@lru_cache(maxsize=2)
def ccs_weights(nodes: tuple[int, ...], neighbours: tuple[tuple[int, ...], ...]) -> Weights:
    """The weights for uniform client influence; `neighbours` are those of each node, mutual.

    Nodes of the highest degree choose first. A node divides what its edges to nodes of higher degree have left of its
    weight equally among its other edges and itself. An edge between two nodes of one degree gets the smaller of both
    proposals.
    """
    adjacent = dict(zip(nodes, neighbours, strict=True))
    weights: dict[int, dict[int, float]] = {node: {} for node in nodes}
    by_degree: dict[int, list[int]] = {}
    for node in nodes:
        by_degree.setdefault(len(adjacent[node]), []).append(node)
    for degree in sorted(by_degree, reverse=True):
        for (one, other), weight in _chosen(by_degree[degree], adjacent, weights).items():
            weights[one][other] = weights[other][one] = weight
    return weights


def _chosen(
    level: Sequence[int], adjacent: Mapping[int, Sequence[int]], weights: Weights
) -> dict[tuple[int, int], float]:
    """The weights of the open edges of nodes of one degree."""
    degree = len(adjacent[level[0]])
    chosen: dict[tuple[int, int], float] = {}
    asked: dict[int, float] = {}
    """What nodes of lower degree would give away."""
    for node in level:
        proposal = _share(node, adjacent, weights)
        for other in adjacent[node]:
            if len(adjacent[other]) == degree:
                chosen[node, other] = min(proposal, _share(other, adjacent, weights))
            elif len(adjacent[other]) < degree:
                chosen[node, other] = proposal
                asked[other] = asked.get(other, 0.0) + proposal
    for node, other in chosen:
        # Some graphs would ask more of a node than it has, and leave it a negative weight: the paper says nothing of
        # them. There, no edge gets more than an equal share.
        if asked.get(other, 0.0) >= _rest(other, weights):
            chosen[node, other] = min(chosen[node, other], _share(other, adjacent, weights))
    return chosen


def _share(node: int, adjacent: Mapping[int, Sequence[int]], weights: Weights) -> float:
    """An equal part of a node's rest, for each of its open edges and for itself."""
    return _rest(node, weights) / (len(adjacent[node]) - len(weights[node]) + 1)


def _rest(node: int, weights: Weights) -> float:
    return 1.0 - sum(weights[node].values())
