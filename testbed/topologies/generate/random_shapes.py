"""Networks drawn at random: d-regular, small world, scale-free, Waxman. All of them are connected.

Takes sizes, link properties and a seed, gives a `SiteNetwork`, touches nothing. The draws are made here rather than by
a graph library, so that a seed gives the same network with every version of the library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import exp, hypot, sqrt
from random import Random

from testbed import seeds
from testbed.errors import UsageProblem
from testbed.topologies.generate.sites import (
    LEAST_LATENCY_MS,
    SiteLink,
    SiteNetwork,
    check_links,
    connected_parts,
    counted,
    numbered_sites,
    uniform_links,
)
from testbed.topologies.model import LinkProperties

_TRIES = 1000
_MOST_PLACED_SITES = 2000
"""Limit for Waxman, which visits every pair of sites."""

_Pairs = set[tuple[int, int]]


def regular(sites: int, degree: int, core: LinkProperties, seed: int) -> SiteNetwork:
    """Every site has exactly `degree` neighbours, drawn at random; drawn again until the network is connected."""
    names = numbered_sites(sites)
    if not 0 <= degree < sites:
        among = f"{counted(degree, 'neighbour')} each among {counted(sites, 'site')}"
        raise UsageProblem(among, f"a degree lies between 0 and {sites - 1}" if sites > 1 else "one site has none")
    if sites * degree % 2:
        raise UsageProblem(
            f"no network of {counted(sites, 'site')} has {counted(degree, 'neighbour')} at each",
            "sites × degree is even: change one of the two by 1",
        )
    if degree < 2 and sites > degree + 1:
        raise UsageProblem(
            f"{sites} sites with {counted(degree, 'neighbour')} each cannot be connected", "give a degree of 2 or more"
        )
    check_links(sites * degree)
    random = seeds.stream(seed, "generate", "regular")
    if degree == 2:
        # Connected, this is a ring in random order; random pairs would hardly ever be connected.
        order = random.sample(range(sites), sites)
        return SiteNetwork(names, uniform_links(zip(order, [*order[1:], order[0]], strict=True), core))
    for _ in range(_TRIES):
        pairs = _pairing(sites, degree, random)
        if pairs is not None and len(connected_parts(sites, pairs)) == 1:
            return SiteNetwork(names, uniform_links(pairs, core))
    raise UsageProblem(f"no connected network in {_TRIES} draws", "give another --seed or a higher --degree")


def _pairing(sites: int, degree: int, random: Random) -> _Pairs | None:
    """Pairs link ends at random, and again those that do not fit; None when none of them can be paired."""
    if degree > (sites - 1) // 2:
        # Dense: draw who is *not* linked, which is sparse and does not get stuck.
        missing = _pairing(sites, sites - 1 - degree, random)
        everyone = {(a, b) for a in range(sites) for b in range(a + 1, sites)}
        return None if missing is None else everyone - missing
    pairs: _Pairs = set()
    ends = [site for site in range(sites) for _ in range(degree)]
    while ends:
        random.shuffle(ends)
        left: list[int] = []
        for a, b in zip(ends[::2], ends[1::2], strict=True):
            pair = (min(a, b), max(a, b))
            if a == b or pair in pairs:
                left += (a, b)
            else:
                pairs.add(pair)
        if len(left) == len(ends) and not _some_fit(left, pairs):
            return None
        ends = left
    return pairs


def _some_fit(ends: Iterable[int], pairs: _Pairs) -> bool:
    left = sorted(set(ends))
    return any((a, b) not in pairs for index, a in enumerate(left) for b in left[index + 1 :])


def small_world(sites: int, degree: int, rewiring: float, core: LinkProperties, seed: int) -> SiteNetwork:
    """Watts–Strogatz: a ring with links to the `degree` nearest sites; each moves with probability `rewiring`.

    A link that moves keeps one end and gets a new other end at random. Drawn again until the network is connected.
    """
    names = numbered_sites(sites)
    if degree % 2 or not 2 <= degree < sites:
        raise UsageProblem(
            f"a small world of {counted(sites, 'site')} with {counted(degree, 'neighbour')} each",
            "the degree is even (half on either side), at least 2 and less than the number of sites",
        )
    _check_fraction("rewiring", rewiring)
    check_links(sites * degree)
    random = seeds.stream(seed, "generate", "small-world")
    for _ in range(_TRIES):
        pairs = _rewired(sites, degree, rewiring, random)
        if len(connected_parts(sites, pairs)) == 1:
            return SiteNetwork(names, uniform_links(pairs, core))
    raise UsageProblem(
        f"no connected network in {_TRIES} draws", "give another --seed, less rewiring or more neighbours"
    )


def _rewired(sites: int, degree: int, rewiring: float, random: Random) -> _Pairs:
    links = [(site, (site + step) % sites) for step in range(1, degree // 2 + 1) for site in range(sites)]
    pairs = {(min(link), max(link)) for link in links}
    counts = [degree] * sites
    for a, b in links:
        if random.random() >= rewiring or counts[a] >= sites - 1:
            continue
        new = random.randrange(sites)
        while new == a or (min(a, new), max(a, new)) in pairs:
            new = random.randrange(sites)
        pairs.remove((min(a, b), max(a, b)))
        pairs.add((min(a, new), max(a, new)))
        counts[b] -= 1
        counts[new] += 1
    return pairs


def barabasi_albert(sites: int, links_each: int, core: LinkProperties, seed: int) -> SiteNetwork:
    """Scale-free: each new site links to `links_each` old ones, with probability proportional to their degree.

    Starts from a star of `links_each` + 1 sites.
    """
    names = numbered_sites(sites)
    if sites < 2:
        raise UsageProblem("a scale-free network of 1 site has no links", "ask for at least 2 sites")
    if not 1 <= links_each < sites:
        most = f"between 1 and {sites - 1}" if sites > 2 else "1"
        raise UsageProblem(
            f"{counted(links_each, 'link')} for each new one of {sites} sites",
            f"give {most}: a site has at most one link to each other site",
        )
    check_links(2 * links_each * (sites - links_each))
    random = seeds.stream(seed, "generate", "barabasi-albert")
    pairs = {(0, site) for site in range(1, links_each + 1)}
    ends = [end for pair in sorted(pairs) for end in pair]  # contains a site once for each of its links
    for site in range(links_each + 1, sites):
        chosen: dict[int, None] = {}  # a set would be ordered by hash: a dict keeps the order of the draws
        while len(chosen) < links_each:
            chosen[random.choice(ends)] = None
        for old in chosen:
            pairs.add((old, site))
            ends += (old, site)
    return SiteNetwork(names, uniform_links(pairs, core))


def waxman(sites: int, alpha: float, beta: float, span_ms: float, core: LinkProperties, seed: int) -> SiteNetwork:
    """Sites at random places of a square, linked with probability alpha × exp(−distance / (beta × diagonal)).

    `span_ms` is the one-way latency along the square's side; a link's latency follows from its length. Parts that
    came out unconnected are joined by a link between their closest sites.
    """
    names = numbered_sites(sites)
    if sites > _MOST_PLACED_SITES:
        raise UsageProblem(
            f"{sites} sites are asked for", f"this kind looks at every pair: at most {_MOST_PLACED_SITES}"
        )
    _check_fraction("alpha", alpha)
    if not 0 < beta <= 1000:
        raise UsageProblem(f"beta is {beta}", "it is more than 0 and at most 1000; common: 0.1 to 0.5")
    random = seeds.stream(seed, "generate", "waxman")
    places = [(random.random(), random.random()) for _ in range(sites)]

    def distance(a: int, b: int) -> float:
        return hypot(places[a][0] - places[b][0], places[a][1] - places[b][1])

    reach = beta * sqrt(2)
    pairs = {
        (a, b)
        for a in range(sites)
        for b in range(a + 1, sites)
        if random.random() < alpha * exp(-distance(a, b) / reach)
    }
    parts = connected_parts(sites, pairs)
    joined = parts[0]
    for part in parts[1:]:
        a, b = min(((a, b) for a in joined for b in part), key=lambda pair: distance(*pair))
        pairs.add((min(a, b), max(a, b)))
        joined = joined + part
    check_links(2 * len(pairs))
    links = []
    for a, b in sorted(pairs):
        latency_ms = max(LEAST_LATENCY_MS, round(span_ms * distance(a, b), 3))
        properties = replace(core, latency_ms=latency_ms)
        links.append(SiteLink(a, b, properties, properties))
    return SiteNetwork(names, tuple(links))


def _check_fraction(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageProblem(f"{what} is {value}", "it lies between 0 and 1")
