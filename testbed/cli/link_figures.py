"""What links carried last, of a run that goes on.

Takes an engine's folder, gives rows; reads the end of its `links.jsonl` only.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from testbed.engines.fabric.accounts import LinkLine, Second
from testbed.engines.fabric.reports import EVERY_S, LINKS

_TAIL_BYTES = 4 << 20
"""Two lines of the largest networks."""


class LinkFigures(NamedTuple):
    """One directed link, over the last second that anything was carried in."""

    origin: str
    dest: str
    rate_bps: float
    packets_s: float
    dropped: int
    queue_mean_ms: float
    queue_max_ms: float


def busiest(engine: Path, most: int) -> list[LinkFigures]:
    """Those that carried or dropped most, first; nothing where nothing is known."""
    lines = _last_lines(engine / LINKS)
    if not lines:
        return []
    earlier, last = lines[0], lines[-1]
    lasted_s = EVERY_S
    if last.t is not None and earlier.t is not None and last.t > earlier.t:
        lasted_s = last.t - earlier.t
    links = sorted(last.links, key=lambda each: (-each.bytes, -_dropped(each), each.link))
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


def _dropped(link: LinkLine) -> int:
    return link.dropped_queue + link.dropped_loss + link.dropped_down


def _last_lines(path: Path) -> list[Second]:
    """At most two; a line that is just being written is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            whole = file.read().rpartition(b"\n")[0].splitlines()[-2:]
    except OSError:
        return []
    found = []
    for text in whole:
        try:
            found.append(msgspec.json.decode(text, type=Second))
        except msgspec.DecodeError:
            continue  # the beginning of it is before what was read
    return found
