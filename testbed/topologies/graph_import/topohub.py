"""Reference topologies of the `topohub` package, which is an optional extra.

Takes a key such as `sndlib/germany50`, gives a networkx graph, touches only that package's own data.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

from testbed.errors import UsageProblem
from testbed.topologies.graph_import.node_link import node_link_graph
from testbed.topologies.graph_import.problems import Graph, check_size
from testbed.units import shown

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*(/[A-Za-z0-9][A-Za-z0-9_.+-]*)+")
_EXAMPLES = "for example sndlib/germany50, topozoo/Abilene, backbone/africa or gabriel/25/0"


def read_topohub(key: str) -> Graph:
    """The graph of that key; raises UsageProblem when the package or the key is missing."""
    if find_spec("topohub") is None:
        raise UsageProblem(
            "the reference topologies are in the package `topohub`, which is not installed",
            "install it with `scripts/venv topohub` in the checkout, or `pip install topohub` beside testbed",
        )
    # The package makes a file name of the key.
    if not _KEY.fullmatch(key) or ".." in key:
        raise UsageProblem(f"{shown(key)} is not the key of a reference topology", _EXAMPLES)
    try:
        document: object = import_module("topohub").get(key)
    except (KeyError, OSError) as problem:
        raise UsageProblem(f"there is no reference topology {shown(key)}", _EXAMPLES) from problem
    graph = node_link_graph(key, document)
    check_size(key, graph)
    return graph
