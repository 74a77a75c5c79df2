"""JSON in node-link form → a networkx graph. Pure.

`{"nodes": [{"id": 0, …}], "edges": [{"source": 0, "target": 1, …}]}`; older writers say `links` instead of `edges`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

import networkx as nx

from testbed.errors import Finding, InvalidInput, Where, error
from testbed.topologies.graph_import.problems import Graph, refuse
from testbed.units import shown

_SHAPE = 'a node-link graph is {"nodes": [{"id": …}, …], "edges": [{"source": …, "target": …}, …]}'
_MOST_FINDINGS = 20


def json_graph(file: str, text: str) -> Graph:
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as problem:
        refuse(file, "syntax", f"not JSON: {problem.msg}", "", Where(problem.lineno, problem.colno))
    except (ValueError, RecursionError) as problem:
        words = "nested too deep" if isinstance(problem, RecursionError) else str(problem)[:200]
        refuse(file, "syntax", f"JSON that cannot be read: {words}")
    return node_link_graph(file, document)


def node_link_graph(file: str, document: object) -> Graph:
    """The graph of a decoded document; all its errors are reported at once."""
    if not isinstance(document, Mapping):
        refuse(file, "graph-shape", "the file holds no JSON object", _SHAPE)
    nodes = document.get("nodes")
    edges = document.get("edges", document.get("links"))
    if not isinstance(nodes, list) or not isinstance(edges, list):
        refuse(file, "graph-shape", "`nodes` and `edges` are not both lists", _SHAPE)
    directed = document.get("directed") is True
    graph: Graph = nx.MultiDiGraph() if directed else nx.MultiGraph()
    if isinstance(document.get("graph"), Mapping):
        graph.graph.update(document["graph"])
    findings: list[Finding] = []
    for place, node in enumerate(nodes):
        if not isinstance(node, Mapping) or not _is_id(node.get("id")):
            findings.append(error("graph-shape", f"nodes[{place}] is not an object with an `id`", _SHAPE))
        elif node["id"] in graph:
            findings.append(
                error("duplicate-name", f"nodes[{place}]: a second node with the id {shown(str(node['id']))}")
            )
        else:
            graph.add_node(node["id"], **_attributes(node))
    for place, edge in enumerate(edges):
        ends = (edge.get("source"), edge.get("target")) if isinstance(edge, Mapping) else (None, None)
        if not all(_is_id(end) for end in ends):
            findings.append(error("graph-shape", f"edges[{place}] is not an object with `source` and `target`", _SHAPE))
            continue
        if unknown := [end for end in ends if end not in graph]:
            findings.append(error("unknown-name", f"edges[{place}]: there is no node {shown(str(unknown[0]))}"))
            continue
        graph.add_edges_from([(*ends, _attributes(edge))])
    if findings:
        raise InvalidInput(file, findings[:_MOST_FINDINGS])
    return graph


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _attributes(entry: Mapping[object, object]) -> dict[str, object]:
    return {str(key): value for key, value in entry.items() if key not in ("id", "source", "target", "key")}


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
