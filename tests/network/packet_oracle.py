"""The packet model again, slowly and plainly: every piece by itself, every queue a list of pieces with bytes.

An event is one piece that reaches a link or leaves its queue. Nothing is looked up in the model that is tested: the
draws follow docs/internals/random-numbers.md with fractions, and a table that is worked out from its formula.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from statistics import NormalDist

import numpy as np

from testbed.network.graph import Network
from testbed.network.paths import compute_paths

SHARES = [Fraction(16 + segment, 16) * Fraction(2) ** (octave - 28) for octave in range(28) for segment in range(16)]
SHARES.append(Fraction(1))
SIZES = [round(-NormalDist().inv_cdf(float(share) / 2) * 2**32) for share in SHARES]


class Stream:
    """The draws of one purpose, one after the other."""

    def __init__(self, seed: int, *purpose: str) -> None:
        name = "\x1f".join([str(seed), *purpose])
        self.state = int(hashlib.sha256(name.encode()).hexdigest()[:16], 16)

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (self.state ^ self.state // 2**30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed // 2**27) * 0x94D049BB133111EB % 2**64
        return mixed ^ mixed // 2**31

    def uniform(self) -> Fraction:
        return Fraction(self.word() // 2**12 * 2 + 1, 2**53)

    def normal(self) -> float:
        negative, word = divmod(self.word(), 2**63)
        share = max(Fraction(word // 2**11 * 2 + 1, 2**53), SHARES[0])
        at = bisect_right(SHARES, share) - 1
        rest = math.floor((share - SHARES[at]) / (SHARES[at + 1] - SHARES[at]) * 2**24)
        size = SIZES[at] - (SIZES[at] - SIZES[at + 1]) * rest // 2**24
        return float(Fraction(-size if negative else size, 2**32))


@dataclass(eq=False)
class Piece:
    origin: int
    dest: int
    segment: int
    place: int
    size: int
    links: list[int]
    hop: int = 0
    leaves_s: float = math.inf
    normal: float = 0.0


@dataclass
class Queue:
    """Of one link: everything in it, background included, as bytes at a time."""

    loss: Stream
    jitter: Stream
    bytes: float = 0.0
    at_s: float = 0.0
    waiting: list[Piece] = field(default_factory=list)


class Oracle:
    def __init__(self, network: Network, seed: int, in_order: bool) -> None:
        self.network = network
        self.in_order = in_order
        self.events: list[tuple[float, int, int, int, bool, int, Piece]] = []
        """Reaching a link (False) or leaving its queue."""
        self.latest: dict[tuple[int, int, int], float] = {}
        self.arrived: dict[tuple[int, int], float] = {}
        self.reached: dict[tuple[int, int], float] = {}
        """When the pieces reached their last link."""
        self.cut: Collection[int] = ()
        self.parted = network.partitions
        self.dropped: Counter[tuple[str, int]] = Counter()
        self.waited: defaultdict[int, float] = defaultdict(float)
        self.segments = 0
        self.queues: list[Queue] = []
        seen: Counter[str] = Counter()
        for origin, dest in zip(network.origin.tolist(), network.dest.tolist(), strict=True):
            name = f"{network.names[origin]}>{network.names[dest]}"
            unique = f"{name}#{seen[name]}" if seen[name] else name
            seen[name] += 1
            self.queues.append(
                Queue(Stream(seed, "packets", "loss", unique), Stream(seed, "packets", "jitter", unique))
            )
        self.paths = compute_paths(network)

    def offer(self, now_s: float, origin: int, dest: int, sizes: list[int]) -> int | None:
        links = self.paths.links(origin, dest) if origin != dest else []
        apart = any(-1 != group[origin] != group[dest] != -1 for group in self.parted)
        if not links or apart:
            return None
        for place, size in enumerate(sizes):
            self.plan(now_s, False, Piece(origin, dest, self.segments, place, size, links))
        self.segments += 1
        return self.segments - 1

    def plan(self, time_s: float, leaves: bool, piece: Piece) -> None:
        heappush(self.events, (time_s, piece.origin, piece.segment, piece.place, leaves, piece.hop, piece))

    def run(self, to_s: float) -> None:
        while self.events and self.events[0][0] <= to_s:
            time_s, *_, leaves, _, piece = heappop(self.events)
            if leaves:
                self.leave(time_s, piece)
            elif piece.hop == len(piece.links):
                if piece.dest in self.cut:
                    self.dropped["down", piece.links[-1]] += 1
                else:
                    self.arrived[piece.segment, piece.place] = time_s
            else:
                self.enter(time_s, piece)

    def drained(self, link: int, now_s: float) -> float:
        net, queue = self.network, self.queues[link]
        if math.isinf(net.rate_bps[link]):
            return 0.0
        speed = float(net.rate_bps[link] - min(net.background_bps[link], 0.999 * net.rate_bps[link])) / 8
        return max(0.0, queue.bytes - (now_s - queue.at_s) * speed)

    def enter(self, now_s: float, piece: Piece) -> None:
        net, link = self.network, piece.links[piece.hop]
        if piece.hop == len(piece.links) - 1:
            self.reached[piece.segment, piece.place] = now_s
        queue, rate = self.queues[link], float(net.rate_bps[link]) / 8
        if not net.up[link]:
            self.dropped["down", link] += 1
            return
        ahead = self.drained(link, now_s)
        if ahead / rate > float(net.queue_ms[link]) / 1e3 + 1e-9 or ahead > float(net.queue_bytes[link]) + 1e-9 * rate:
            self.dropped["queue", link] += 1
            return
        self.waited[link] += ahead / rate
        queue.bytes, queue.at_s = ahead + piece.size, now_s
        if net.loss[link] > 0 and queue.loss.uniform() < float(net.loss[link]):
            self.dropped["loss", link] += 1
            return
        if net.jitter_ms[link] > 0:
            piece.normal = queue.jitter.normal()
        piece.leaves_s = now_s + (ahead + piece.size) / rate
        queue.waiting.append(piece)
        self.plan(piece.leaves_s, True, piece)

    def leave(self, now_s: float, piece: Piece) -> None:
        net, link = self.network, piece.links[piece.hop]
        self.queues[link].waiting.remove(piece)
        travel_ms = net.latency_ms[link] + piece.normal * net.jitter_ms[link]
        there_s = now_s + max(0.0, float(travel_ms)) / 1e3
        if net.jitter_ms[link] > 0 and self.in_order:
            flow = link, piece.origin, piece.dest
            there_s = self.latest[flow] = max(there_s, self.latest.get(flow, 0.0))
        piece.hop += 1
        self.plan(there_s, False, piece)

    def handed_over(self, window_s: float) -> dict[tuple[int, int], float]:
        """When each piece that has arrived was handed over."""
        handed: dict[tuple[int, int], float] = {}
        for piece, first_s in sorted(self.arrived.items(), key=lambda item: item[1]):
            if piece in handed:
                continue
            rest = [each for each in self.arrived if each[0] == piece[0] and each not in handed]
            near = [each for each in rest if self.arrived[each] <= first_s + window_s]
            at_s, before_s = first_s, -1.0
            while at_s > before_s:
                known = [each for each in near if self.reached[each] <= at_s]
                at_s, before_s = max(self.arrived[each] for each in known), at_s
            handed.update(dict.fromkeys(known, at_s))
        return handed

    def change(self, now_s: float, network: Network, cut: Collection[int] = ()) -> None:
        """Without jitter: the order of what is on its way would be another story."""
        self.run(now_s)
        self.cut, self.parted = cut, network.partitions
        closed = np.isin(network.origin, [*cut]) | np.isin(network.dest, [*cut])
        network = replace(network, up=network.up & ~closed)
        gone: set[Piece] = set()
        for link, queue in enumerate(self.queues):
            queue.bytes, queue.at_s = self.drained(link, now_s), now_s
            old, new = float(self.network.loss[link]), float(network.loss[link])
            stay = []
            for piece in queue.waiting:
                if not network.up[link]:
                    self.dropped["down", link] += 1
                elif new > old and queue.loss.uniform() < (new - old) / (1 - old):
                    self.dropped["loss", link] += 1
                else:
                    left = (piece.leaves_s - now_s) * float(self.network.rate_bps[link])
                    piece.leaves_s = now_s + left / float(network.rate_bps[link])
                    stay.append(piece)
                    continue
                gone.add(piece)
            queue.waiting = stay
            if not network.up[link]:
                queue.bytes = 0.0
        planned = [event for event in self.events if event[-1] not in gone]
        self.events = [(event[-1].leaves_s if event[4] else event[0], *event[1:]) for event in planned]
        heapify(self.events)
        self.network = network
        self.paths = compute_paths(network)
