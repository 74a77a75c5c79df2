"""Edge lists → a networkx graph. Pure.

A line is two names and quantities of the edge, identified by their units: `paris london 450km`, `a b 5ms 10Gbps`.
Blanks or commas separate; `#` begins a comment. networkx' own output is read as well: `a b {'latency': 5.0}`, and
`a b 2.5`, whose number is the attribute `weight`.
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
_PLAIN = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_ATTRIBUTES = re.compile(r"\{(?P<inner>[^{}]*)\}\s*$")
_ATTRIBUTE = re.compile(
    r"""\s*(['"])(?P<key>[^'"]*)\1\s*:\s*(?:(?P<number>[^\s,'"]+)|(['"])(?P<text>[^'"]*)\4)\s*(?:,|$)"""
)
_NO_NUMBERS = ("True", "False", "None")
_MOST_FINDINGS = 50
_HINT = "write two names, then if you like a distance (450km) or a latency (5ms), and a rate (10Gbps)"


def edge_list_graph(file: str, text: str) -> Graph:
    graph: Graph = nx.MultiGraph()
    findings: list[Finding] = []
    for number, line in enumerate(text.splitlines(), start=1):
        attributes: dict[str, float | str] = {}
        if (written := _ATTRIBUTES.search(line)) is not None and "#" not in line[: written.start()]:
            line = line[: written.start()]
            known = _attributes(written["inner"])
            if known is None:
                hint = "write them as networkx does: {'latency': 5.0, 'name': 'x'}"
                where = Where(number, written.start() + 1)
                findings.append(error("edge-list", f"{shown(written[0])} are no attributes of an edge", hint, where))
                continue
            attributes.update(known)
        words = list(_WORD.finditer(line.partition("#")[0]))
        if not words:
            continue
        if len(words) < 2:
            findings.append(error("edge-list", "a line with one word", _HINT, Where(number, words[0].start() + 1)))
            continue
        for word in words[2:]:
            try:
                attributes.update(_quantity(word[0]))
            except UnitError as problem:
                findings.append(error("bad-value", problem.message, problem.hint, Where(number, word.start() + 1)))
        graph.add_edges_from([(words[0][0], words[1][0], attributes)])
    if findings:
        raise InvalidInput(file, findings[:_MOST_FINDINGS])
    return graph


def _attributes(inner: str) -> dict[str, float | str] | None:
    """Parses the text between braces; None where it is invalid. Values are numbers or words."""
    found: dict[str, float | str] = {}
    at = 0
    while at < len(inner.rstrip()):
        attribute = _ATTRIBUTE.match(inner, at)
        if attribute is None:
            return None
        number = attribute["number"]
        if number in _NO_NUMBERS:
            found[attribute["key"]] = number
        elif number is not None and not _PLAIN.fullmatch(number):
            return None
        else:
            found[attribute["key"]] = attribute["text"] if number is None else float(number)
        at = attribute.end()
    return found


def _quantity(word: str) -> dict[str, float]:
    if _PLAIN.fullmatch(word):
        return {"weight": float(word)}
    if match := _KILOMETRES.fullmatch(word):
        return {"dist": float(match[1])}
    parse: Callable[[str], float] = parse_rate_bps if word.endswith("bps") else parse_latency_ms
    key = "LinkSpeedRaw" if word.endswith("bps") else "latency"
    try:
        return {key: parse(word)}
    except UnitError as problem:
        raise UnitError(f"{shown(word)} is neither a distance, a latency nor a rate", _HINT) from problem
