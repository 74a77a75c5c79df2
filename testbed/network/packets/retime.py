"""What becomes of the packets in a queue when its link changes.

Takes trains and the links that changed, gives trains; touches nothing. Only pieces that were still in the queue are
concerned: what is ahead of them is so many bytes, so at another rate all their times to wait scale alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from testbed.network.packets.link import Link
from testbed.network.packets.train import Route, Train
from testbed.network.packets.wire import Wire


class Rewired(NamedTuple):
    """A link that has changed."""

    link: Link
    old: Wire

    @property
    def concerns_queue(self) -> bool:
        old, new = self.old, self.link.wire
        return (
            new.byte_s != old.byte_s or new.latency_s != old.latency_s or new.loss > old.loss or (old.up and not new.up)
        )


class _Queued(NamedTuple):
    """One piece in the queue of a changed link; sorts as it stands there."""

    depart_s: float
    key: int
    piece: int
    arrival_s: float
    train: Train


def retime(now_s: float, trains: Iterable[Train], rewired: Iterable[Rewired], in_order: bool) -> list[Train]:
    """The trains as they go on after the change; what is dropped is counted."""
    changed = {each.link.index: each for each in rewired}
    queued: dict[int, list[_Queued]] = {index: [] for index in changed}
    ahead: defaultdict[int, dict[Route, float]] = defaultdict(dict)
    """By link: when the latest piece of a flow that is past the queue gets to the end."""
    going_on: list[Train] = []
    for train in trains:
        train.next = None
        via = train.route.links[train.hop - 1].index if train.hop else None
        if via is None or via not in changed:
            going_on.append(train)
            continue
        past: list[int] = []
        for place in range(train.pos, len(train.times)):
            if train.departs[place] <= now_s:
                past.append(place)
                latest = ahead[via]
                latest[train.route] = max(latest.get(train.route, 0.0), train.times[place])
            else:
                queued[via].append(
                    _Queued(train.departs[place], train.key, train.pieces[place], train.times[place], train)
                )
        if past:
            going_on.append(_part(train, [(train.times[at], train.departs[at], train.pieces[at]) for at in past]))
    for index, pieces in queued.items():
        going_on += _leave_later(
            now_s, changed[index], sorted(pieces, key=lambda each: each[:3]), ahead[index], in_order
        )
    return going_on


def _leave_later(
    now_s: float, rewired: Rewired, queued: list[_Queued], latest: dict[Route, float], in_order: bool
) -> list[Train]:
    link, old, new = rewired.link, rewired.old, rewired.link.wire
    if not new.up:
        link.dropped_down += len(queued)
        for each in queued:
            each.train.route.flow.dropped_packets += 1
        return []
    scale = new.byte_s / old.byte_s if old.byte_s else 1.0
    also_lost = (new.loss - old.loss) / (1.0 - old.loss) if new.loss > old.loss else 0.0
    if new.latency_s != old.latency_s:
        latest = dict.fromkeys(latest, 0.0)
    parts: dict[Train, list[tuple[float, float, int]]] = {}
    for each in queued:
        route = each.train.route
        if also_lost and link.draw_loss() < also_lost:
            link.dropped_loss += 1
            route.flow.dropped_packets += 1
            continue
        depart_s = now_s + (each.depart_s - now_s) * scale
        shift_s = each.arrival_s - each.depart_s - old.latency_s
        arrival_s = depart_s + max(0.0, new.latency_s + shift_s)
        if in_order:
            arrival_s = max(arrival_s, latest.get(route, 0.0))
        latest[route] = arrival_s
        parts.setdefault(each.train, []).append((arrival_s, depart_s, each.piece))
    for route, latest_s in latest.items():
        route.latest[route.links.index(link)] = latest_s
    return [_part(train, sorted(moved)) for train, moved in parts.items()]


def _part(train: Train, moved: list[tuple[float, float, int]]) -> Train:
    """Some pieces of a train as a train of their own."""
    times, departs, pieces = (list(column) for column in zip(*moved, strict=True))
    return Train(train.route, train.key, train.sizes, train.window_s, train.hop, times, departs, pieces)
