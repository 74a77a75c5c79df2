"""Deterministic shapes: star, ring, tree, full mesh.

Takes a number of sites and the properties of a link between two, gives a `SiteNetwork`, touches nothing.
"""

from __future__ import annotations

from itertools import combinations

from testbed.errors import UsageProblem
from testbed.topologies.generate.sites import SiteNetwork, check_links, numbered_sites, uniform_links
from testbed.topologies.model import LinkProperties


def star() -> SiteNetwork:
    """One switch: every node is two access links away from every other."""
    return SiteNetwork(("node",), ())


def ring(sites: int, core: LinkProperties) -> SiteNetwork:
    """Every site has two neighbours (two sites: one)."""
    names = numbered_sites(sites)
    pairs = {tuple(sorted((site, (site + 1) % sites))) for site in range(sites)} if sites > 1 else set()
    return SiteNetwork(names, uniform_links(((a, b) for a, b in pairs), core))


def tree(sites: int, branching: int, core: LinkProperties, *, leaves_only: bool = False) -> SiteNetwork:
    """A complete tree, filled level by level: site i hangs below site (i - 1) // branching.

    With `leaves_only`, nodes stand only at the sites that have nothing below them.
    """
    names = numbered_sites(sites)
    if branching < 1:
        raise UsageProblem(f"a tree with {branching} branches", "give at least 1")
    parents = [(site - 1) // branching for site in range(1, sites)]
    inner = set(parents)
    leaves = tuple(site for site in range(sites) if site not in inner)
    return SiteNetwork(
        names, uniform_links(zip(parents, range(1, sites), strict=True), core), leaves if leaves_only else None
    )


def mesh(sites: int, core: LinkProperties) -> SiteNetwork:
    """Every site is linked to every other."""
    names = numbered_sites(sites)
    check_links(sites * (sites - 1))
    return SiteNetwork(names, uniform_links(combinations(range(sites), 2), core))
