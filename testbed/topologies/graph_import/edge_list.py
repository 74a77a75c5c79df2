"""Edge lists → a networkx graph. Pure.

A line is two names and what is known of the edge, told apart by its unit: `paris london 450km`, `a b 5ms 10Gbps`.
Blanks or commas separate; `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import networkx as nx

from testbed.errors import Finding, InvalidInput, Where, error
from testbed.topologies.graph_import.problems import Graph
from testbed.units import UnitError, parse_latency_ms, parse_rate_bps, shown

_WORD = re.compile(r"[^\s,;]+")
_KILOMETRES = re.compile(r"([0-9]+(?:\.[0-9]+)?)km")
_MOST_FINDINGS = 50
_HINT = "write two names, then if you like a distance (450km) or a latency (5ms), and a rate (10Gbps)"


def edge_list_graph(file: str, text: str) -> Graph:
    graph: Graph = nx.MultiGraph()
    findings: list[Finding] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = list(_WORD.finditer(line.partition("#")[0]))
        if not words:
            continue
        if len(words) < 2:
            findings.append(error("edge-list", "a line with one word", _HINT, Where(number, words[0].start() + 1)))
            continue
        attributes: dict[str, float] = {}
        for word in words[2:]:
            try:
                attributes.update(_quantity(word[0]))
            except UnitError as problem:
                findings.append(error("bad-value", problem.message, problem.hint, Where(number, word.start() + 1)))
        graph.add_edge(words[0][0], words[1][0], **attributes)
    if findings:
        raise InvalidInput(file, findings[:_MOST_FINDINGS])
    return graph


def _quantity(word: str) -> dict[str, float]:
    if match := _KILOMETRES.fullmatch(word):
        return {"dist": float(match[1])}
    parse: Callable[[str], float] = parse_rate_bps if word.endswith("bps") else parse_latency_ms
    key = "LinkSpeedRaw" if word.endswith("bps") else "latency"
    try:
        return {key: parse(word)}
    except UnitError as problem:
        raise UnitError(f"{shown(word)} is neither a distance, a latency nor a rate", _HINT) from problem
