"""The packet model: every piece of every segment, link by link, in exact order.

Takes a `Network`, offers and times; gives arrivals; touches nothing. See the package for how a link works.

How it goes about it. The pieces of a segment that are on their way to the same link are a *train*. Whichever train
reaches its link first is carried next, as many of its pieces at once as certainly come before any other at that link:
up to the next train that is known to come there, and as far as no other piece can reach it from wherever it is now. So
a super-segment costs little more than a packet, and interleaved ones are still carried piece by piece.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from testbed.network.graph import Network
from testbed.network.packets.counters import LinkCounts, PairCounts, Snapshot, link_counts, pair_counts, snapshot
from testbed.network.packets.ends import Ends
from testbed.network.packets.link import Link
from testbed.network.packets.network_state import Difference, NetworkState
from testbed.network.packets.retime import Rewired, retime
from testbed.network.packets.routes import Routes
from testbed.network.packets.train import GONE, Flow, Route, Train, key_of, segment_of
from testbed.network.packets.wire import link_names

DEFAULT_WINDOW_S = 0.0002
LONGEST_WINDOW_S = 0.001


class Arrival(NamedTuple):
    """Pieces of a segment that are to be handed to their destination together."""

    segment: int
    origin: int
    dest: int
    due_s: float
    """When the last of them is there."""
    pieces: tuple[int, ...]
    """Which of the sizes offered."""
    latency_s: float
    """Of the path."""


class Packets:
    """Packets under way in one network. Times never go backwards: neither of offers nor of advances."""

    def __init__(
        self,
        network: Network,
        *,
        seed: int,
        in_order: bool = True,
        time_scale: float = 1.0,
        window_s: float = DEFAULT_WINDOW_S,
        window_share: float = 0.0,
        routes: Routes | None = None,
    ) -> None:
        """Pieces of a segment that arrive within `window_s` of the first of them are reported together.

        Or, where that is longer, within that share of their path's latency, though never more than a millisecond.
        """
        self._seed = seed
        self._in_order = in_order
        self._scale = time_scale
        self._window_s = window_s
        self._window_share = window_share
        self._now_s = 0.0
        self._node_count = network.node_count
        self._link_names = link_names(network)
        self._state = NetworkState(network, time_scale, routes)
        self._lookahead_s, self._last_hop_s = self._state.lookahead_s()
        self._links: dict[int, Link] = {}
        self._flows: dict[int, Flow] = {}
        self._epoch = 0
        """Of the routes."""
        self._segments = 0
        self._no_path = 0
        self._taken = 0
        """Pieces that were offered elsewhere."""
        self._agenda: list[tuple[float, int, int, int, Link]] = []
        """When some train reaches which link: time, key, piece, link. Entries that are no longer true are skipped."""
        self._ends = Ends()
        self._handed: list[Arrival] = []
        """What was due before a change, and is to be given with the next advance."""

    # -- packets ---------------------------------------------------------------------------------------------------

    def offer(self, now_s: float, origin: int, dest: int, sizes: Sequence[int]) -> int | None:
        """Pieces of so many bytes reach their first link together; gives the number of the segment.

        None, and counted, where there is no path.
        """
        self._forward(now_s)
        flow = self._flow(origin, dest)
        count = len(sizes)
        flow.offered_packets += count
        flow.offered_bytes += sum(sizes)
        route = flow.route
        if route is None or not count:
            flow.dropped_packets += count
            self._no_path += count
            return None
        segment = self._segments
        self._segments += 1
        times = [now_s] * count
        train = Train(route, key_of(origin, segment), tuple(sizes), route.window_s, 0, times, times, list(range(count)))
        self._wait(train, route.links[0])
        return segment

    def take(
        self, link: int, origin: int, dest: int, sizes: Sequence[int], pieces: Sequence[int], times_s: Sequence[float]
    ) -> int | None:
        """Pieces of a segment that another network model has carried up to a link of this one go on from there.

        `pieces` says which of the sizes they are, `times_s` when each of them reaches the link; none before now. Gives
        the number of the segment here; None, and counted, where the way from origin to destination no longer has that
        link. A segment comes after all that were offered or taken before, should both reach a link at the same time.
        """
        flow = self._flow(origin, dest)
        route = flow.route
        hop = next((hop for hop, each in enumerate(route.links) if each.index == link), None) if route else None
        self._taken += len(pieces)
        if route is None or hop is None or not pieces:
            flow.dropped_packets += len(pieces)
            self._no_path += len(pieces)
            return None
        segment = self._segments
        self._segments += 1
        times, order = (list(each) for each in zip(*sorted(zip(times_s, pieces, strict=True)), strict=True))
        if times[0] < self._now_s:
            raise ValueError(f"time went backwards, from {self._now_s} s to {times[0]} s")
        train = Train(route, key_of(origin, segment), tuple(sizes), route.window_s, hop, times, times, order)
        self._wait(train, route.links[hop])
        return segment

    def under_way(self) -> set[int]:
        """The numbers of all segments of which some piece has neither arrived nor been dropped."""
        return {segment_of(train.key) for train in self._trains()} | {each.segment for each in self._handed}

    def route_of(self, origin: int, dest: int) -> Route | None:
        """The path that the pair's latest packets took; None where there were none, or no path for them."""
        flow = self._flows.get(origin * self._node_count + dest)
        return None if flow is None else flow.route

    def next_s(self) -> float:
        """Nothing arrives before, but for what is overdue; infinite when nothing is under way. It may be too early."""
        return self._now_s if self._handed else max(self._next_s(), self._now_s)

    def advance(self, to_s: float) -> list[Arrival]:
        """What has arrived up to and including a time, in order of due time."""
        self._hand_over_until(to_s)
        found, self._handed = self._handed, []
        return found

    # -- changes ---------------------------------------------------------------------------------------------------

    def change(self, now_s: float, network: Network, routes: Routes | None = None) -> None:
        """From now on the network has other properties, or other links are up; the links are the same ones.

        Routes of the new network may have been prepared; else they are worked out here when the old ones do not do.
        """
        self._hand_over_until(now_s)
        self._rewire(now_s, self._state.change(network, routes))

    def cut(self, now_s: float, *ranks: int) -> None:
        """Nothing leaves or reaches these nodes any more; what has left them travels on.

        What is due until now has reached them.
        """
        self._hand_over_until(now_s)
        self._rewire(now_s, self._state.cut_off(ranks))

    def uncut(self, now_s: float, *ranks: int) -> None:
        self._hand_over_until(now_s)
        self._rewire(now_s, self._state.bring_back(ranks))

    @property
    def now_s(self) -> float:
        """The latest time that it was told: nothing may be offered before."""
        return self._now_s

    # -- counts ----------------------------------------------------------------------------------------------------

    def links(self) -> LinkCounts:
        """Of every link in use so far. The longest waits begin anew."""
        return link_counts(self._links.values())

    def pairs(self) -> PairCounts:
        return pair_counts(self._flows.values())

    def snapshot(self) -> Snapshot:
        """All counts so far, both of links and of pairs."""
        return snapshot(self._now_s, self.links(), self.pairs(), no_path=self._no_path, taken=self._taken)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _forward(self, now_s: float) -> None:
        if now_s < self._now_s:
            raise ValueError(f"time went backwards, from {self._now_s} s to {now_s} s")
        self._now_s = now_s

    def _flow(self, origin: int, dest: int) -> Flow:
        """With its route as of now."""
        flow = self._flows.get(origin * self._node_count + dest) or self._new_flow(origin, dest)
        if flow.epoch != self._epoch:
            self._find_route(flow)
        return flow

    def _new_flow(self, origin: int, dest: int) -> Flow:
        count = self._node_count
        if not (0 <= origin < count and 0 <= dest < count):
            raise ValueError(f"no ranks of this network: {origin}, {dest}")
        flow = self._flows[origin * count + dest] = Flow(origin, dest)
        return flow

    def _find_route(self, flow: Flow) -> None:
        flow.epoch = self._epoch
        partitions = self._state.network.partitions
        groups = [(int(group[flow.origin]), int(group[flow.dest])) for group in partitions]
        apart = any(one >= 0 and other >= 0 and one != other for one, other in groups)
        links = [] if apart or flow.origin == flow.dest else self._state.routes.links(flow.origin, flow.dest)
        taken = tuple(self._links.get(index) or self._new_link(index) for index in links)
        if not taken or not all(link.wire.up for link in taken):
            flow.route = None
        elif flow.route is None or flow.route.links != taken:
            flow.route = Route(flow, taken)
        if flow.route is not None:
            self._time_route(flow.route)

    def _time_route(self, route: Route) -> None:
        route.latency_s = 0.0
        for link in route.links:  # in this order; Python's `sum` rounds differently from version to version
            route.latency_s += link.wire.latency_s
        longest_s = max(self._window_s, LONGEST_WINDOW_S) * self._scale
        route.window_s = min(max(self._window_s * self._scale, self._window_share * route.latency_s), longest_s)

    def _new_link(self, index: int) -> Link:
        lookahead_s = self._lookahead_s[int(self._state.network.origin[index])]
        link = self._links[index] = Link(
            index, self._link_names[index], self._seed, self._state.wires.wire(index), lookahead_s, self._in_order
        )
        return link

    def _rewire(self, now_s: float, difference: Difference) -> None:
        if difference.has_new_paths:
            self._epoch += 1
        self._lookahead_s, self._last_hop_s = self._state.lookahead_s()
        rewired = []
        for index in difference.links:
            if index in self._links:
                link = self._links[index]
                rewired.append(Rewired(link, link.wire))
                link.rewire(now_s, self._state.wires.wire(index))
        for link in self._links.values():
            link.lookahead_s = self._lookahead_s[int(self._state.network.origin[link.index])]
        concerned = [each for each in rewired if each.concerns_queue]
        if concerned:
            self._start_again(retime(now_s, self._trains(), concerned, self._in_order))

    def _trains(self) -> list[Train]:
        waiting = [entry[3] for link in self._links.values() for entry in link.pending]
        return waiting + self._ends.trains()

    def _start_again(self, trains: list[Train]) -> None:
        """These trains and no others are under way."""
        self._agenda.clear()
        self._ends.clear()
        for link in self._links.values():
            link.pending.clear()
        for train in trains:
            links = train.route.links
            if train.hop < len(links):
                self._wait(train, links[train.hop])
            else:
                at = train.pos
                self._ends.add(train, train.times[at:], train.departs[at:], train.pieces[at:])

    def _wait(self, train: Train, link: Link) -> None:
        """The train's next piece is to reach the link."""
        pending, at = link.pending, train.pos
        entry = (train.times[at], train.key, train.pieces[at], train)
        heappush(pending, entry)
        if pending[0] is entry:
            heappush(self._agenda, (entry[0], entry[1], entry[2], link.index, link))

    def _run(self, to_s: float) -> None:
        """Carries everything that reaches a link up to and including a time."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= to_s:
            time_s, key, _, index, link = heappop(agenda)
            pending = link.pending
            if not pending or pending[0][0] != time_s or pending[0][1] != key:
                continue
            train = heappop(pending)[3]
            end = len(train.times)
            if end - train.pos > 1:
                end = self._how_far(train, link, to_s)
            times, departs, pieces = link.carry(train, end)
            if end < len(train.times):
                train.pos = end
                heappush(pending, (train.times[end], key, train.pieces[end], train))
            self._move(train, end, times, departs, pieces)
            if pending:
                first = pending[0]
                heappush(agenda, (first[0], first[1], first[2], index, link))

    def _how_far(self, train: Train, link: Link, to_s: float) -> int:
        """Up to which of the train's pieces no other piece can come between, its next one being the first of all."""
        times, key, start = train.times, train.key, train.pos
        end = bisect_right(times, to_s, start)
        if link.pending:
            other_s, other_key = link.pending[0][0], link.pending[0][1]
            cut = bisect_right if key < other_key else bisect_left
            end = cut(times, other_s, start, end)
        if self._agenda:
            other_s, other_key = self._agenda[0][0], self._agenda[0][1]
            ahead_s = link.lookahead_s
            cut = bisect_right if ahead_s == 0.0 and key < other_key else bisect_left
            end = cut(times, other_s + ahead_s, start, end)
        return max(end, start + 1)

    def _move(self, train: Train, end: int, times: list[float], departs: list[float], pieces: list[int]) -> None:
        """These pieces of a train are through the link that the train has reached up to a place."""
        hop, further = train.hop + 1, train.next
        is_all = end == len(train.times)
        links = train.route.links
        if pieces and hop == len(links):
            self._ends.add(train, times, departs, pieces)
            pieces = []
        elif pieces and further is not None and further.hop == hop and self._in_order and times[0] >= further.times[-1]:
            further.extend(times, departs, pieces)
            pieces = []
        if not pieces:
            if is_all:
                train.hop = GONE
            return
        if is_all:
            train.hop, train.times, train.departs, train.pieces = hop, times, departs, pieces
            train.pos, train.next = 0, None
        else:
            part = Train(train.route, train.key, train.sizes, train.window_s, hop, times, departs, pieces)
            train.next, train = part, part
        self._wait(train, links[hop])

    def _next_s(self) -> float:
        """Nothing is handed over before; infinite when nothing is under way."""
        next_s = self._ends.next_s()
        return min(next_s, self._agenda[0][0] + self._last_hop_s) if self._agenda else next_s

    def _hand_over_until(self, to_s: float) -> None:
        """Everything that is due up to and including a time, as if it had been asked for at every time before."""
        self._forward(to_s)
        while (next_s := self._next_s()) < to_s:
            self._run(next_s)
            self._hand_over(next_s)
        self._run(to_s)
        self._hand_over(to_s)

    def _hand_over(self, to_s: float) -> None:
        """What is due up to a time is at its destination, or before its closed door."""
        for train, pieces, due_s in self._ends.take(to_s):
            flow = train.route.flow
            if flow.dest in self._state.cut:
                train.route.links[-1].dropped_down += len(pieces)
                flow.dropped_packets += len(pieces)
                continue
            flow.arrived_packets += len(pieces)
            sizes = train.sizes
            flow.arrived_bytes += sum([sizes[piece] for piece in pieces])
            segment, latency_s = segment_of(train.key), train.route.latency_s
            self._handed.append(Arrival(segment, flow.origin, flow.dest, due_s, tuple(pieces), latency_s))
