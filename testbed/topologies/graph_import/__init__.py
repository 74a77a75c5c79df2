"""Published graphs → `SiteNetwork`, and findings about missing properties.

    files (GraphML, GML, JSON, edge list)  ─┐
    topohub (the package of that name)     ─┴─> networkx graph ─ meaning ─> Imported

`files` treats what it reads as hostile: sizes are bounded, document types refused, and every failure is a finding
with its place. `meaning` knows the collections' attributes for latency, distance, rate and coordinates, `quantities`
which values are plausible; `renames` reports which sites could not keep their names.
"""

from testbed.topologies.graph_import.files import read_graph
from testbed.topologies.graph_import.meaning import Imported, Keys, interpret
from testbed.topologies.graph_import.renames import renames
from testbed.topologies.graph_import.topohub import read_topohub

__all__ = ["Imported", "Keys", "interpret", "read_graph", "read_topohub", "renames"]
