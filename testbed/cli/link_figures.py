"""Recent traffic of links and of pairs of nodes in a running experiment.

Takes an engine's folder, gives rows; reads the end of its `links.jsonl` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from testbed.engines.fabric.accounts import PAIRS_EVERY, LinkLine, Second
from testbed.engines.fabric.reports import EVERY_S, LINKS
from testbed.run_files import read_end

_TAIL_BYTES = 16 << 20
"""Enough for the lines of the largest networks since the last one with pairs."""


class LinkFigures(NamedTuple):
    """A directed link, over the last second in which it carried anything."""

    origin: str
    dest: str
    rate_bps: float
    packets_s: float
    dropped: int
    queue_mean_ms: float
    queue_max_ms: float


class PairFigures(NamedTuple):
    """An ordered pair of nodes, over the last second with traffic, or ten seconds where there are many pairs."""

    origin: str
    dest: str
    rate_bps: float
    """Rate from the first node to the second."""
    packets_s: float
    dropped: int
    queue_mean_ms: float


def busiest(engine: Path, most: int) -> list[LinkFigures]:
    """The links that carried or dropped most, in descending order; empty where nothing is known."""
    line = next((each for each in _last_lines(engine / LINKS) if each.links), None)
    if line is None:
        return []
    lasted_s = line.seconds or EVERY_S
    links = sorted(line.links, key=lambda each: (-each.bytes, -_dropped(each), each.link))
    return [
        LinkFigures(
            each.origin,
            each.dest,
            round(each.bytes * 8 / lasted_s),
            round(each.packets / lasted_s, 1),
            _dropped(each),
            each.queue_mean_ms,
            each.queue_max_ms,
        )
        for each in links[:most]
    ]


def busiest_pairs(engine: Path, most: int, names: Sequence[str]) -> list[PairFigures]:
    """The pairs that sent or lost most, in descending order; empty where nothing is known. `names` are by rank."""
    line = next((each for each in _last_lines(engine / LINKS) if each.pairs), None)
    if line is None or line.pairs is None:
        return []
    lasted_s = line.pairs_seconds or EVERY_S
    known = (each for each in line.pairs if max(each.origin, each.dest) < len(names))
    pairs = sorted(known, key=lambda each: (-each.bytes, -each.dropped_packets, each.origin, each.dest))
    return [
        PairFigures(
            names[each.origin],
            names[each.dest],
            round(each.bytes * 8 / lasted_s),
            round(each.packets / lasted_s, 1),
            each.dropped_packets,
            each.queue_mean_ms,
        )
        for each in pairs[:most]
    ]


def _dropped(link: LinkLine) -> int:
    return link.dropped_queue + link.dropped_loss + link.dropped_down


def _last_lines(path: Path) -> Iterator[Second]:
    """Lines in reverse order, as far back as one with pairs may be; a line being written is skipped."""
    try:
        whole = read_end(path, path.parents[1], _TAIL_BYTES).rpartition(b"\n")[0].splitlines()
    except OSError:
        return
    for text in islice(reversed(whole), PAIRS_EVERY):
        try:
            yield msgspec.json.decode(text, type=Second)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # its beginning was not read
