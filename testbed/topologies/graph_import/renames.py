"""Reports sites of a graph that could not keep their names. Pure.

Takes a `SiteNetwork` and the `Topology` made of it, gives findings.
"""

from __future__ import annotations

from collections import defaultdict

from testbed.errors import Finding, note
from testbed.topologies.generate.names import plain_name
from testbed.topologies.generate.sites import SiteNetwork, counted
from testbed.topologies.model import Topology
from testbed.units import shown

_SHOWN = 5


def renames(network: SiteNetwork, topology: Topology) -> tuple[Finding, ...]:
    """One note with the number of renamed sites and some examples, the least similar first.

    A site's name is its service's where it has exactly one, otherwise its bridge's without the `r-`.
    """
    services: dict[str, list[str]] = defaultdict(list)
    bridges = topology.bridge_names
    for link in topology.links:
        if link.dest in bridges and link.origin not in bridges:
            services[link.dest].append(link.origin)
    renamed: list[tuple[bool, str, str]] = []
    for site, bridge in zip(network.names, topology.bridges, strict=True):
        here = services[bridge.name]
        name = here[0] if len(here) == 1 else bridge.name.removeprefix("r-")
        if name != site:
            renamed.append((name == plain_name(site) and name != plain_name(""), site, name))
    if not renamed:
        return ()
    renamed.sort(key=lambda one: one[0])
    told = ", ".join(f"{shown(site)} is `{name}`" for _alike, site, name in renamed[:_SHOWN])
    more = f" and {len(renamed) - _SHOWN} more" if len(renamed) > _SHOWN else ""
    have = "has another name" if len(renamed) == 1 else "have other names"
    count = f"{len(renamed)} of {counted(len(network.names), 'site')} {have}"
    return (
        note(
            "import-renamed",
            f"{count} here: {told}{more}",
            "names have at most 18 of a-z, 0-9 and -, so that every runtime takes them; ranks follow the file's order",
        ),
    )
