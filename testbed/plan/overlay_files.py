"""Overlays from a file of edges, and from the topology's links.

Takes text or a topology, gives pairs of ranks; touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from testbed.errors import did_you_mean
from testbed.network.graph import expand
from testbed.plan.overlay_graph import NoGraph
from testbed.topologies.model import Topology
from testbed.units import shown

Pair = tuple[int, int]

_MOST_DIGITS = 20
_ATTRIBUTES = re.compile(r"\{[^{}]*\}$")
_WEIGHT = re.compile(r"[+-]?[0-9]*\.[0-9]*([eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+")


def read_edges(text: str, ranks: Mapping[str, int], file: str) -> list[Pair]:
    """The edges in a text: `a b` on a line, or `a b c …` for a's edge to each of the others; names or ranks.

    Words are separated by blanks, commas or a colon after the first; `#` begins a comment. A first line with one number
    is the number of nodes, as in DecentralizePy's files. Attributes that networkx writes behind an edge are ignored (`a
    b {'weight': 2.5}`), and so is a weight that is not a whole number (`a b 2.5`).
    """
    pairs: list[Pair] = []
    lines = [(number, line.split("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line]
    if lines and _is_number(lines[0][1]) and lines[0][1] not in ranks:
        number, first = lines.pop(0)
        if int(first) != len(ranks):
            raise NoGraph(f"{file}:{number}: it is for {first} nodes, here are {len(ranks)}", "", "file")
    for number, line in lines:
        here = f"{file}:{number}"
        words = _words(_ATTRIBUTES.sub("", line).strip())
        if not words:
            raise NoGraph(f"{here}: attributes, and no edge that has them", "write `a b {…}`, or leave it out", "file")
        if len(words) == 3 and _WEIGHT.fullmatch(words[2]) and words[2] not in ranks:
            words.pop()
        origin, *others = [_rank(word, ranks, here) for word in words]
        for other in others:
            if other == origin:
                raise NoGraph(f"{here}: an edge from a node to itself", "leave it out", "file")
            pairs.append((origin, other))
    return pairs


def _words(line: str) -> list[str]:
    if "," in line:
        return [word.strip() for word in line.split(",") if word.strip()]
    first, colon, rest = line.partition(": ")
    return [first.strip(), *rest.split()] if colon else line.removesuffix(":").split()


def _is_number(word: str) -> bool:
    """Whether a word is a finite number."""
    return word.isdecimal() and len(word) < _MOST_DIGITS


def _rank(word: str, ranks: Mapping[str, int], here: str) -> int:
    if word in ranks:
        return ranks[word]
    if _is_number(word) and int(word) < len(ranks):
        return int(word)
    raise NoGraph(f"{here}: there is no node {shown(word)}", did_you_mean(word, ranks), "file")


def network_edges(topology: Topology) -> Iterator[Pair]:
    """Pairs of nodes with a direct link, or with links to the same bridge or shared access link."""
    network = expand(topology)
    nodes = network.node_count
    behind: dict[int, set[int]] = {}
    for origin, dest in np.stack((network.origin, network.dest), axis=1)[network.up].tolist():
        if origin < nodes and dest < nodes:
            yield origin, dest
        elif origin < nodes <= dest:
            behind.setdefault(dest, set()).add(origin)
        elif dest < nodes <= origin:
            behind.setdefault(origin, set()).add(dest)
    for _, members in sorted(behind.items()):
        yield from combinations(sorted(members), 2)
