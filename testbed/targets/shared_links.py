"""Finds a node whose paths must share a link, because it has more partners than links.

Takes a `Network`, gives one node; touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from testbed.network.graph import Network

_CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class CrowdedNode:
    """A node with fewer links than partners, so that some of its paths share a link."""

    rank: int
    link: int
    """One of its links, an index into the network's."""
    partners: int
    """How many other nodes it reaches, or is reached by."""


def crowded_uplink(network: Network) -> CrowdedNode | None:
    """A node with fewer links out than nodes that it reaches; None where none is found."""
    return _crowd(network, reverse=False)


def crowded_downlink(network: Network) -> CrowdedNode | None:
    """A node with fewer links in than nodes that reach it; None where none is found."""
    return _crowd(network, reverse=True)


def _crowd(network: Network, *, reverse: bool) -> CrowdedNode | None:
    """Only the nodes with the fewest links are checked: if their paths share none, others' do not either."""
    count, vertices = network.node_count, len(network.names)
    up = np.flatnonzero(network.up)
    ends = (network.dest, network.origin) if reverse else (network.origin, network.dest)
    origin, dest = ends[0][up], ends[1][up]
    pairs = np.unique(origin.astype(np.int64) * vertices + dest)
    degree = np.bincount(pairs // vertices, minlength=vertices)[:count]
    able = np.flatnonzero((degree > 0) & (degree < count - 1))
    if not able.size:
        return None
    matrix = csr_array((np.ones(origin.size), (origin, dest)), shape=(vertices, vertices))
    for rank in able[np.argsort(degree[able], kind="stable")][:_CANDIDATES].tolist():
        reached = breadth_first_order(matrix, rank, directed=True, return_predecessors=False)
        partners = int((reached < count).sum()) - 1
        if partners > degree[rank]:
            return CrowdedNode(rank, int(up[np.flatnonzero(origin == rank)[0]]), partners)
    return None
