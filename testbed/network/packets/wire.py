"""What directed links do to packets, in seconds.

Takes a `Network`, what is cut off and the time scale, gives `Wire`s; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from testbed.network.graph import Floats, Network

_BITS = 8.0
_MS = 1e-3
_ROUNDING_S = 1e-9
"""Round numbers of packets fill a queue exactly; sums of their times must not decide."""
_MOST_BACKGROUND = 0.999
"""Background traffic never fills a link: a rate that fell below it leaves this little."""
FARTHEST_JITTER = 6.0
"""In standard deviations: no draw of `normals` is farther from the mean, so no packet is earlier."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One direction of a link."""

    byte_s: float
    """How long a byte takes; 0 where nothing throttles the link."""
    latency_s: float
    jitter_s: float
    loss: float
    limit_s: float
    """How long a piece may have to wait."""
    drain: float
    """The part of the rate that background traffic leaves."""
    up: bool


WIRE_ROW = np.dtype(
    [(name, np.float64) for name in ("byte_s", "latency_s", "jitter_s", "loss", "limit_s", "drain")]
    + [("up", np.int64)]
)
"""A `Wire` in an array."""


class Wires:
    """All links of one network, those of some ranks cut off, at one time scale.

    Latencies are that many times longer and rates that many times lower, so queues hold as many bytes.
    """

    def __init__(self, network: Network, cut: Iterable[int], time_scale: float) -> None:
        is_cut = np.zeros(len(network.names), dtype=np.bool_)
        is_cut[list(cut)] = True
        up = network.up & ~is_cut[network.origin] & ~is_cut[network.dest]
        self.network = replace(network, up=up, partitions=())
        self._scale = time_scale

    def wire(self, link: int) -> Wire:
        row = self.rows([link])[0]
        byte_s, latency_s, jitter_s, loss, limit_s, drain, up = row.tolist()
        return Wire(byte_s, latency_s, jitter_s, loss, limit_s, drain, bool(up))

    def rows(self, links: Sequence[int]) -> NDArray[np.void]:
        """The wires of these links as rows of WIRE_ROW."""
        network, scale = self.network, self._scale
        rate_bps = network.rate_bps[links]
        found = np.empty(len(links), dtype=WIRE_ROW)
        byte_s = _BITS / rate_bps * scale
        limit_s = network.queue_ms[links] * _MS * scale
        is_limited = byte_s > 0.0
        by_bytes_s = np.multiply(
            network.queue_bytes[links], byte_s, where=is_limited, out=np.full_like(byte_s, math.inf)
        )
        found["byte_s"] = byte_s
        found["latency_s"] = network.latency_ms[links] * _MS * scale
        found["jitter_s"] = network.jitter_ms[links] * _MS * scale
        found["loss"] = network.loss[links]
        found["limit_s"] = np.minimum(limit_s, by_bytes_s) + _ROUNDING_S
        found["drain"] = 1.0 - np.minimum(network.background_bps[links] / rate_bps, _MOST_BACKGROUND)
        found["up"] = network.up[links]
        return found

    def differing(self, before: Wires) -> list[int]:
        """The links that are not as they were."""
        new, old = self.network, before.network
        differ = new.up != old.up
        for mine, other in (
            (new.rate_bps, old.rate_bps),
            (new.latency_ms, old.latency_ms),
            (new.jitter_ms, old.jitter_ms),
            (new.loss, old.loss),
            (new.queue_ms, old.queue_ms),
            (new.queue_bytes, old.queue_bytes),
            (new.background_bps, old.background_bps),
        ):
            differ |= mine != other
        found: list[int] = np.flatnonzero(differ).tolist()
        return found

    def lookahead_s(self) -> Floats:
        """By vertex: how long it takes at least from reaching a link that leads here to being here."""
        least = np.full(len(self.network.names), math.inf)
        np.minimum.at(least, self.network.dest, self._travel_s())
        return least

    def to_end_s(self) -> Floats:
        """By link: how long it takes at least from leaving its queue to being at a node."""
        network, travel_s = self.network, self._travel_s()
        from_s = np.where(np.arange(len(network.names)) < network.node_count, 0.0, math.inf)
        while True:
            to_end_s: Floats = travel_s + from_s[network.dest]
            before_s = from_s.copy()
            np.minimum.at(from_s, network.origin, to_end_s)
            if (before_s == from_s).all():
                return to_end_s

    def _travel_s(self) -> Floats:
        network = self.network
        found: Floats = np.maximum(network.latency_ms - FARTHEST_JITTER * network.jitter_ms, 0.0) * _MS * self._scale
        return found


def ordinals(network: Network) -> NDArray[np.int64]:
    """By link: how many of the same origin and destination come before it in the document."""
    key = network.origin * np.int64(len(network.names)) + network.dest
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.searchsorted(ordered, ordered, side="left")
    found = np.empty(key.size, dtype=np.int64)
    found[order] = np.arange(key.size) - first
    return found


def link_names(network: Network) -> list[str]:
    """Of all links, as docs/internals/random-numbers.md calls them."""
    names = network.names
    rows = zip(network.origin.tolist(), network.dest.tolist(), ordinals(network).tolist(), strict=True)
    return [f"{names[one]}>{names[other]}" + (f"#{ordinal}" if ordinal else "") for one, other, ordinal in rows]
