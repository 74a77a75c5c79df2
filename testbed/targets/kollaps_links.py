"""How Kollaps treats links and paths.

Takes a `Topology` and its `Network`, gives findings; touches nothing. Where following every path would take too
long, a sample of sources is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from testbed.errors import Finding, error, warning
from testbed.network.findings import sample_sources
from testbed.network.graph import Network
from testbed.network.paths import Paths, compute_paths
from testbed.targets.kollaps_latency import zero_latency
from testbed.targets.reported import ReportedFindings
from testbed.targets.shared_links import crowded_uplink
from testbed.topologies.model import Link, LinkEvent, Topology
from testbed.topologies.two_way import in_pairs, same_link
from testbed.units import UNLIMITED, format_latency, format_rate, shown

_MOST_LINKS = 65_535
"""Kollaps numbers its directed links with 16 bits."""
_RATE_STEP_BPS = 1000
_MOST_STEPS = 2_000_000
"""Bound of links and vertices visited over all followed sources."""
_NETEM_PACKETS = 1000
_PACKET_BITS = 1500 * 8


def link_findings(topology: Topology, network: Network, reported: ReportedFindings) -> Iterator[Finding]:
    """All findings about links that reading the file has not reported."""
    declared = [link for link in topology.links if not link.starts_down]
    if not declared:
        first = next((service.where for service in topology.services), None)
        message = "there are no links: Kollaps' generator and its dashboard crash"
        yield error("kollaps-no-links", message, "add at least one link between two nodes", first)
    if not topology.links:
        return
    yield from (each for each in _rates(topology) if not reported.of(each.code, each.where))
    yield from (each for each in _one_way(declared) if not reported.of(each.code, each.where))
    yield from _asymmetric(declared)
    yield from _shared(declared)
    yield from _networks(topology.links)
    yield from _too_many(topology, network)
    yield from zero_latency(topology, network, _most_sources(network))
    if declared:
        yield from _packets_in_flight(topology, network)
        yield from _one_to_many(topology, network)


def _between(link: Link | LinkEvent) -> str:
    return f"link from {shown(link.origin)} to {shown(link.dest)}"


def _rates(topology: Topology) -> Iterator[Finding]:
    rates: list[tuple[Link | LinkEvent, float | None]] = [(link, link.properties.rate_bps) for link in topology.links]
    rates += [(event, event.change.rate_bps) for event in topology.events if isinstance(event, LinkEvent)]
    for limited, rate_bps in rates:
        if rate_bps is not None and rate_bps != UNLIMITED and rate_bps % _RATE_STEP_BPS:
            yield error(
                "kollaps-rate",
                f"{_between(limited)}: Kollaps knows whole numbers of Kbps only, and {format_rate(rate_bps)} is none",
                f"write {format_rate(max(1, round(rate_bps / _RATE_STEP_BPS)) * _RATE_STEP_BPS)}",
                limited.where,
            )


def _one_link(there: Link, back: Link) -> bool:
    """Whether two links are one entry of the file, or can be one in XML."""
    return same_link(there, back) and (there.where == back.where or not _differing(there, back))


def _differing(there: Link, back: Link) -> list[str]:
    """Properties that differ between two directions and must not."""
    a, b = there.properties, back.properties
    return [
        word
        for word, one, other in (
            ("latency", a.latency_ms, b.latency_ms),
            ("jitter", a.jitter_ms, b.jitter_ms),
            ("loss", a.loss, b.loss),
        )
        if one != other
    ]


def _one_way(declared: Sequence[Link]) -> Iterator[Finding]:
    """Links whose two directions are not one element: Kollaps' parsers disagree on them."""
    for there, back in in_pairs(declared, _one_link):
        if back is None:
            yield error(
                "kollaps-one-way",
                f"the {_between(there)} is one-way: Kollaps' emulation core and its dashboard would number all links "
                "differently",
                "declare both directions in one link, with a rate each",
                there.where,
            )


def _asymmetric(declared: Sequence[Link]) -> Iterator[Finding]:
    for there, back in in_pairs(declared, _one_link):
        differing = _differing(there, back) if back is not None else []
        if differing:
            yield error(
                "kollaps-asymmetric",
                f"{_between(there)}: its two directions differ in {' and '.join(differing)}; Kollaps knows different "
                "rates only",
                "give both directions the same latency, jitter and loss",
                there.where,
            )


def _shared(declared: Sequence[Link]) -> Iterator[Finding]:
    for there, _back in in_pairs(declared, _one_link):
        for name, is_shared in ((there.origin, there.origin_shared), (there.dest, there.dest_shared)):
            if is_shared:
                yield error(
                    "kollaps-share",
                    f"the replicas of {shown(name)} share an access link: with latency 0 between them Kollaps' "
                    "emulation cores exit",
                    f"write the bridge yourself: from {shown(name)} to a new bridge with 0.001ms and the link's rate, "
                    "and from there the real link, neither of them shared",
                    there.where,
                )


def _networks(links: Sequence[Link]) -> Iterator[Finding]:
    """Links in a second container network, created ones included."""
    first = links[0].network
    seen = {first}
    for link in links:
        if link.network not in seen:
            seen.add(link.network)
            message = f"{_between(link)}: a second network, {shown(link.network)}; Kollaps knows one only"
            yield error("kollaps-networks", message, f"write {shown(first)} everywhere", link.where)


def _too_many(topology: Topology, network: Network) -> Iterator[Finding]:
    if network.link_count > _MOST_LINKS:
        created = network.link_count - int(network.up.sum())
        with_created = f", with the {created} that events create" if created else ""
        yield error(
            "kollaps-too-many-links",
            f"{network.link_count} directed links between replicas{with_created}: Kollaps numbers no more than "
            f"{_MOST_LINKS}",
            "join replicas by a bridge instead of to each other",
            topology.links[0].where,
        )


def _sources(network: Network) -> list[int]:
    return sample_sources(network, _most_sources(network))


def _most_sources(network: Network) -> int:
    return max(1, _MOST_STEPS // max(1, network.link_count + len(network.names)))


def _packets_in_flight(topology: Topology, network: Network) -> Iterator[Finding]:
    if network.node_count < 2:
        return
    paths = compute_paths(network, _sources(network))
    limited = paths.reachable & np.isfinite(paths.bandwidth_bps)
    in_flight = np.zeros(limited.shape)
    in_flight[limited] = paths.latency_ms[limited] / 1000 * paths.bandwidth_bps[limited] / _PACKET_BITS
    over = int((in_flight > _NETEM_PACKETS).sum())
    if not over:
        return
    row, dest = (int(each) for each in np.unravel_index(np.argmax(in_flight), in_flight.shape))
    source = int(paths.sources[row])
    latency_ms, rate_bps = float(paths.latency_ms[row, dest]), float(paths.bandwidth_bps[row, dest])
    slowest = min(paths.links(source, dest), key=lambda link: float(network.rate_bps[link]))
    most_bps = round(_NETEM_PACKETS * _PACKET_BITS / latency_ms * 1000, -4)
    yield warning(
        "kollaps-netem-limit",
        f"{over} of {int(paths.reachable.sum())} paths hold more than the {_NETEM_PACKETS} packets of Kollaps' queues"
        f"{_sampled(paths)}: from `{network.names[source]}` to `{network.names[dest]}`, {format_rate(rate_bps)} over "
        f"{format_latency(round(latency_ms, 3))} are {in_flight[row, dest]:.0f} packets of 1500 bytes, and about "
        f"{format_rate(most_bps)} would get through",
        "lower the rate or the latency, or expect less there (segmentation offload may carry more)",
        topology.links[int(network.declared[slowest])].where,
    )


def _sampled(paths: Paths) -> str:
    count = paths.network.node_count
    return "" if paths.sources.size == count else f" (in a sample of {paths.sources.size} of {count} sources)"


def _one_to_many(topology: Topology, network: Network) -> Iterator[Finding]:
    crowd = crowded_uplink(network)
    if crowd is not None:
        yield warning(
            "kollaps-one-to-many",
            f"nodes have several destinations behind a link (`{network.names[crowd.rank]}` reaches {crowd.partners}): "
            "of a node that sends to several at once Kollaps shares the link by the order of a hash map, and can give "
            "much less than there is",
            "trust rates only where a node sends to one destination at a time, or compare with another runtime",
            topology.links[int(network.declared[crowd.link])].where,
        )
