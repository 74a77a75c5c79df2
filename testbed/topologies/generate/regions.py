"""Regions of the world, linked pairwise according to a latency matrix.

Takes matrices, gives a `SiteNetwork`, touches nothing.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.topologies.generate.matrix import Matrix, arranged
from testbed.topologies.generate.sites import SiteLink, SiteNetwork
from testbed.topologies.model import LinkProperties


def regions(
    latencies_ms: Matrix, core: LinkProperties, rates_bps: Matrix | None = None, losses: Matrix | None = None
) -> SiteNetwork:
    """A link for every pair with a one-way latency; `core` gives properties that the matrices lack."""
    names = latencies_ms.names
    rates = arranged(rates_bps, names, "rates") if rates_bps else None
    lossy = arranged(losses, names, "losses") if losses else None

    def properties(a: int, b: int) -> LinkProperties | None:
        latency_ms = latencies_ms.values[a][b]
        if latency_ms is None:
            return None
        rate_bps = rates.values[a][b] if rates else None
        loss = lossy.values[a][b] if lossy else None
        return replace(
            core,
            latency_ms=latency_ms,
            rate_bps=core.rate_bps if rate_bps is None else rate_bps,
            loss=core.loss if loss is None else loss,
        )

    links = [
        SiteLink(a, b, properties(a, b), properties(b, a))
        for a in range(len(names))
        for b in range(a + 1, len(names))
        if latencies_ms.values[a][b] is not None
    ]
    return SiteNetwork(names, tuple(links))
