"""Frames on their way: from what nodes write to what is written to nodes, with the packet model in between.

Takes frames and times, gives what is to be written when; touches nothing. Times are seconds since the data plane began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite

from testbed.engines.fabric.data_plane import BACKLOG, MOST_HELD_BYTES, held_bytes
from testbed.engines.fabric.deliveries import TOGETHER, Delivery, Wait
from testbed.engines.fabric.python_plane.frames import Frame, is_group, part, read_frame, whole
from testbed.engines.fabric.unfit import Unfit
from testbed.network.graph import Network
from testbed.network.packets import Packets


class _Held:
    """A frame whose pieces have not all arrived."""

    __slots__ = ("frame", "left", "origin", "size_bytes")

    def __init__(self, frame: Frame, left: int, origin: int) -> None:
        self.frame = frame
        self.left = left
        self.origin = origin
        self.size_bytes = held_bytes(len(frame.data), len(frame.sizes))


class Forwarder:
    """All frames between the nodes of one network."""

    def __init__(
        self,
        network: Network,
        addresses: Sequence[bytes],
        *,
        seed: int,
        mtu: int,
        in_order: bool = True,
        time_scale: float = 1.0,
        most_held_bytes: int = MOST_HELD_BYTES,
        most_held_of_one_bytes: int = MOST_HELD_BYTES // 4,
    ) -> None:
        self.packets = Packets(network, seed=seed, in_order=in_order, time_scale=time_scale, window_share=TOGETHER)
        self.unfit: list[Counter[str]] = [Counter() for _ in addresses]
        """By rank of the sender, why frames of its were not carried."""
        self.held_bytes = 0
        self._held_of = [0] * len(addresses)
        self._most_held_bytes = most_held_bytes
        self._most_held_of_one_bytes = most_held_of_one_bytes
        self._addresses = list(addresses)
        self._ranks = {address: rank for rank, address in enumerate(addresses)}
        self._mtu = mtu
        self._held: dict[int, _Held] = {}
        self._added_s: dict[int, float] = {}
        """By the first link of its path, how much later the latest frame was than had it been read at once."""

    @property
    def held(self) -> int:
        """Frames on their way."""
        return len(self._held)

    def offer(self, now_s: float, origin: int, data: bytes, since_s: float | None = None) -> Wait | None:
        """A node has written a frame, at the earliest at `since_s`; gives what it has lost by not being read then.

        None, and counted, when it is not carried: such frames tell nothing of what those that are carried have lost.

        What waits to be read has lost no time while the link that it goes to has others to send, unless these come late
        themselves: then it has lost as much as they, and never more than it has waited.
        """
        frame = read_frame(data, self._addresses[origin], self._mtu)
        if isinstance(frame, Unfit):
            self.unfit[origin][frame] += 1
            return None
        dest = self._ranks.get(frame.dest)
        if dest is None or dest == origin:
            self.unfit[origin][Unfit.MULTICAST if is_group(frame.dest) else Unfit.UNKNOWN_DESTINATION] += 1
            return None
        if self._is_full(origin):
            self.unfit[origin][BACKLOG] += len(frame.sizes)
            return None
        route = self.packets.route_of(origin, dest)
        gap_s = None if route is None else now_s - route.links[0].free_since_s
        segment = self.packets.offer(now_s, origin, dest, frame.sizes)
        if segment is None:
            return None
        self._keep(segment, frame, len(frame.sizes), origin)
        waited_s = 0.0 if since_s is None or since_s > now_s else now_s - since_s
        if route is None or gap_s is None:
            route = self.packets.route_of(origin, dest)
            assert route is not None  # noqa: S101 - or there would be no segment
            self._added_s[route.links[0].index] = waited_s
            return (0.0, waited_s, route.latency_s)
        link = route.links[0].index
        if gap_s < 0.0:
            gap_s = 0.0
        added_s = gap_s + self._added_s.get(link, 0.0)
        if added_s > waited_s:
            added_s = waited_s
        self._added_s[link] = added_s
        return (gap_s if gap_s < waited_s else waited_s, added_s, route.latency_s)

    def take(self, origin: int, data: bytes, link: int, pieces: Sequence[int], times_s: Sequence[float]) -> bool:
        """Packets of a frame that another fabric has carried up to a link go on from there, if there is a way."""
        if not 0 <= origin < len(self._addresses):
            return False
        frame = read_frame(data, self._addresses[origin], self._mtu)
        if isinstance(frame, Unfit) or not _are_pieces(frame, pieces, times_s):
            self.unfit[origin][Unfit.MALFORMED] += 1
            return False
        dest = self._ranks.get(frame.dest)
        if dest is None:
            self.unfit[origin][Unfit.UNKNOWN_DESTINATION] += 1
            return False
        if self._is_full(origin):
            self.unfit[origin][BACKLOG] += len(pieces)
            return False
        not_before_s = self.packets.now_s
        times_s = [max(not_before_s, time_s) for time_s in times_s]
        segment = self.packets.take(link, origin, dest, frame.sizes, pieces, times_s)
        if segment is None:
            return False
        self._keep(segment, frame, len(pieces), origin)
        return True

    def advance(self, now_s: float) -> Iterator[Delivery]:
        """What has arrived by now."""
        for arrival in self.packets.advance(now_s):
            held = self._held[arrival.segment]
            frame, pieces = held.frame, arrival.pieces
            held.left -= len(pieces)
            if not held.left:
                del self._held[arrival.segment]
                self._hold(held.origin, -held.size_bytes)
            if len(pieces) == len(frame.sizes):
                size = sum(frame.sizes)
                yield Delivery(arrival.dest, arrival.due_s, whole(frame), len(pieces), size, arrival.latency_s)
                continue
            for first, last in _runs(pieces):
                size = sum(frame.sizes[first:last])
                data = part(frame, first, last)
                yield Delivery(arrival.dest, arrival.due_s, data, last - first, size, arrival.latency_s)

    def release(self) -> None:
        """Forgets frames of which some pieces were dropped and all others have arrived."""
        if not self._held:
            return
        under_way = self.packets.under_way()
        for segment in [each for each in self._held if each not in under_way]:
            held = self._held.pop(segment)
            self._hold(held.origin, -held.size_bytes)

    def _is_full(self, origin: int) -> bool:
        """Whether no more frames may be on their way."""
        return self.held_bytes > self._most_held_bytes or self._held_of[origin] > self._most_held_of_one_bytes

    def _keep(self, segment: int, frame: Frame, pieces: int, origin: int) -> None:
        held = self._held[segment] = _Held(frame, pieces, origin)
        self._hold(origin, held.size_bytes)

    def _hold(self, origin: int, size_bytes: int) -> None:
        self.held_bytes += size_bytes
        self._held_of[origin] += size_bytes


def _are_pieces(frame: Frame, pieces: Sequence[int], times_s: Sequence[float]) -> bool:
    """Whether these are different pieces of the frame, each with a time."""
    numbers = {*pieces}
    is_each_one = len(numbers) == len(pieces) == len(times_s) and numbers <= {*range(len(frame.sizes))}
    return is_each_one and all(map(isfinite, times_s))


def _runs(pieces: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Consecutive pieces as ranges; pieces that have overtaken others start a new one."""
    first = before = pieces[0]
    for piece in pieces[1:]:
        if piece != before + 1:
            yield first, before + 1
            first = piece
        before = piece
    yield first, before + 1
