"""Type, size limits and refusal of graph files. Pure."""

from __future__ import annotations

from typing import NoReturn, TypeAlias

import networkx as nx

from testbed.errors import InvalidInput, Where, error

Graph: TypeAlias = "nx.Graph[object]"

MOST_SITES = 20_000
MOST_EDGES = 500_000


def refuse(file: str, code: str, message: str, hint: str = "", where: Where | None = None) -> NoReturn:
    raise InvalidInput(file, [error(code, message, hint, where)])


def check_size(file: str, graph: Graph) -> None:
    """Refuses graphs that are empty or too large."""
    if not len(graph):
        refuse(file, "graph-empty", "the graph has no nodes")
    if len(graph) > MOST_SITES or graph.number_of_edges() > MOST_EDGES:
        size = f"{len(graph)} nodes and {graph.number_of_edges()} edges"
        refuse(file, "graph-too-large", f"the graph has {size}", f"the most is {MOST_SITES} and {MOST_EDGES}")
