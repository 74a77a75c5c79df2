"""A physical network without nodes: sites, each a bridge, joined by links.

Takes names and pairs, gives a `SiteNetwork`, touches nothing. `populate` adds the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.errors import UsageProblem
from testbed.topologies.model import MAX_DIRECTED_LINKS, MAX_NODES, LinkProperties

LEAST_LATENCY_MS = 0.1
"""Least latency of a link between two sites: switching takes time even at distance 0."""

FIBRE_KM_PER_MS = 200.0
"""Speed of light in glass: two thirds of that in vacuum."""


@dataclass(frozen=True, slots=True)
class SiteLink:
    """A two-way link between two sites, by index; `forth` is from a to b. None: no link in that direction."""

    a: int
    b: int
    forth: LinkProperties | None
    back: LinkProperties | None


@dataclass(frozen=True, slots=True)
class SiteNetwork:
    """Sites and the links between them. Only the sites in `homes` may have nodes; None means all of them."""

    names: tuple[str, ...]
    links: tuple[SiteLink, ...]
    homes: tuple[int, ...] | None = None

    @property
    def inhabited(self) -> tuple[int, ...]:
        return tuple(range(len(self.names))) if self.homes is None else self.homes


def numbered_sites(count: int) -> tuple[str, ...]:
    """`n0`, `n1`, …"""
    check_sites(count)
    return tuple(f"n{number}" for number in range(count))


def uniform_links(pairs: Iterable[tuple[int, int]], core: LinkProperties) -> tuple[SiteLink, ...]:
    """The same two-way link for every pair, in ascending order."""
    return tuple(SiteLink(a, b, core, core) for a, b in sorted((min(pair), max(pair)) for pair in pairs))


def check_sites(count: int) -> None:
    """Raises UsageProblem unless there are 1 to `MAX_NODES` sites."""
    if not 1 <= count <= MAX_NODES:
        raise UsageProblem(f"{count} sites are asked for", f"a network has between 1 and {MAX_NODES} sites")


def check_links(directed: int) -> None:
    """Raises UsageProblem for more than `MAX_DIRECTED_LINKS`; called before anything of that size is built."""
    if directed > MAX_DIRECTED_LINKS:
        raise UsageProblem(
            f"this would have {directed} directed links",
            f"a topology has at most {MAX_DIRECTED_LINKS}: ask for fewer sites, or for a sparser kind of network",
        )


def connected_parts(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components, each ascending, ordered by their first site."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        neighbours[a].append(b)
        neighbours[b].append(a)
    seen = [False] * count
    parts: list[list[int]] = []
    for start in range(count):
        if seen[start]:
            continue
        seen[start] = True
        part, waiting = [start], [start]
        while waiting:
            for neighbour in neighbours[waiting.pop()]:
                if not seen[neighbour]:
                    seen[neighbour] = True
                    part.append(neighbour)
                    waiting.append(neighbour)
        parts.append(sorted(part))
    return parts


def counted(count: int, what: str) -> str:
    """`1 link`, `2 links`: the number and the word, in the plural unless there is exactly one."""
    return f"{count} {what}{'' if count == 1 else 's'}"
