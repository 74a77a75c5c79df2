"""Graphs that others have published → `SiteNetwork`, and findings about what they leave open.

    files (GraphML, GML, JSON, edge list)  ─┐
    reference (the `topohub` package)      ─┴─> networkx graph ─ meaning ─> Imported

`files` treats what it reads as hostile: sizes are bounded, document types refused, and every failure is a finding
with its place. `meaning` knows what the collections call a latency, a distance, a rate and a place, `quantities` what
makes sense as one; `renames` tells which sites could not keep their names.
"""

from testbed.topologies.graph_import.files import read_graph
from testbed.topologies.graph_import.meaning import Imported, Keys, interpret
from testbed.topologies.graph_import.renames import renames
from testbed.topologies.graph_import.topohub import read_topohub

__all__ = ["Imported", "Keys", "interpret", "read_graph", "read_topohub", "renames"]
