"""What links and pairs of nodes carried last, of a run that goes on.

Takes an engine's folder, gives rows; reads the end of its `links.jsonl` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from testbed.engines.fabric.reports import EVERY_S, LINKS
from testbed.engines.fabric.traffic_log import PAIRS_EVERY, LinkLine, Second
from testbed.run_files import read_end

_TAIL_BYTES = 16 << 20
"""The largest networks' lines since one that has their pairs."""


class LinkFigures(NamedTuple):
    """One directed link, over the last second that anything was carried in."""

    origin: str
    dest: str
    rate_bps: float
    packets_s: float
    dropped: int
    queue_mean_ms: float
    queue_max_ms: float


class PairFigures(NamedTuple):
    """One ordered pair of nodes, over the last second that anything was carried in, or ten where there are many."""

    origin: str
    dest: str
    rate_bps: float
    """That the first has sent to the other."""
    packets_s: float
    dropped: int
    queue_mean_ms: float


def busiest(engine: Path, most: int) -> list[LinkFigures]:
    """Those that carried or dropped most, first; nothing where nothing is known."""
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
    """Those that sent or lost most, first; nothing where nothing is known. The names are by rank."""
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
    """The last one first, as far back as one with pairs may be; one that is just being written is none."""
    try:
        whole = read_end(path, path.parents[1], _TAIL_BYTES).rpartition(b"\n")[0].splitlines()
    except OSError:
        return
    for text in islice(reversed(whole), PAIRS_EVERY):
        try:
            yield msgspec.json.decode(text, type=Second)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the beginning of it is before what was read
