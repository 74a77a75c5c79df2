"""Summaries of the paths: one row for each pair, and the range of every property.

Takes a `Network`, gives rows and ranges; touches nothing. Works in blocks of sources, so that memory is bounded for any
number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from testbed.network.findings import sample_sources
from testbed.network.graph import Floats, Network
from testbed.network.paths import Paths, compute_paths

_BLOCK_PAIRS = 1 << 21
_MOST_PAIRS = 1 << 24
"""Most pairs of a summary: all pairs of 4096 nodes."""
_LATENCY_DIGITS = 9
_LOSS_DIGITS = 12
"""Digits kept: sums of decimal fractions are not exact beyond them."""


class PathRow(NamedTuple):
    """A pair of different nodes. Without a path: no latency, jitter or hops, loss 1, bandwidth 0."""

    source: int
    dest: int
    latency_ms: float | None
    jitter_ms: float | None
    loss: float
    bandwidth_bps: int | None
    """None: unlimited."""
    hops: int | None
    reachable: bool


def blocks(network: Network, sources: Sequence[int]) -> Iterator[Paths]:
    """The paths from these sources, in blocks of sources."""
    step = max(1, _BLOCK_PAIRS // max(1, network.node_count))
    for start in range(0, len(sources), step):
        yield compute_paths(network, sources[start : start + step])


def rows(paths: Paths, dests: Sequence[int]) -> Iterator[PathRow]:
    """Rows of all sources with the given destinations, in that order."""
    for row, source in enumerate(paths.sources.tolist()):
        columns = (
            np.round(paths.latency_ms[row], _LATENCY_DIGITS).tolist(),
            np.round(paths.jitter_ms[row], _LATENCY_DIGITS).tolist(),
            np.round(paths.loss[row], _LOSS_DIGITS).tolist(),
            paths.bandwidth_bps[row].tolist(),
            paths.hops[row].tolist(),
        )
        latency, jitter, loss, bandwidth, hops = columns
        for dest in dests:
            if dest == source:
                continue
            if hops[dest] < 0:
                yield PathRow(source, dest, None, None, 1.0, 0, None, reachable=False)
                continue
            rate = None if bandwidth[dest] == np.inf else int(bandwidth[dest])
            yield PathRow(source, dest, latency[dest], jitter[dest], loss[dest], rate, hops[dest], reachable=True)


@dataclass(frozen=True, slots=True)
class Range:
    """Range over the pairs that have a path."""

    min: float
    median: float
    max: float


@dataclass(frozen=True, slots=True)
class PathSummary:
    """Ranges over all ordered pairs of different nodes, or over those from a sample of sources."""

    latency_ms: Range | None
    bandwidth_bps: Range | None
    loss: Range | None
    reachable_pairs: int
    pairs: int
    sources: int


def summarise(network: Network) -> PathSummary:
    """The ranges of path properties; from a sample of sources (always the same) when there are more than 4096 nodes."""
    sources = sample_sources(network, _MOST_PAIRS // max(1, network.node_count))
    paths = compute_paths(network, sources)
    reachable = paths.reachable
    return PathSummary(
        latency_ms=_range(np.round(paths.latency_ms[reachable], _LATENCY_DIGITS)),
        bandwidth_bps=_range(paths.bandwidth_bps[reachable]),
        loss=_range(np.round(paths.loss[reachable], _LOSS_DIGITS)),
        reachable_pairs=int(reachable.sum()),
        pairs=len(sources) * (network.node_count - 1),
        sources=len(sources),
    )


def _range(values: Floats) -> Range | None:
    if not values.size:
        return None
    return Range(float(values.min()), float(np.median(values)), float(values.max()))
