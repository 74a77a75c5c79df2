"""Rehearses the first rounds of a run: all messages without the learning, over the fluid network model.

Takes a `RunPlan`, the size of a message and each learner's computing time, gives the ends of rounds; touches nothing.
Runs in virtual time use the same model with the same draws, so their rounds take as long as rehearsed here. In a
rehearsal no node fails, speeds stay as at the start, and the network has no events.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count

from testbed.network.flows import Delivered, Transfer
from testbed.network.moment import network_before
from testbed.plan.flows_of import flows_of
from testbed.plan.model import RunPlan

Then = Callable[[], None]
Messages = Mapping[int, tuple[int, ...]]
"""Recipients of each learner in a round."""
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 0.025, 0.1
_WINDOW_LATENCIES = 4.0
"""A peak is an average over this many latencies, within these limits: on long paths, the queueing of shorter bursts is
a small part of the delay."""
RARE = 0.01
"""Share of all bytes that may be sent at a higher rate; health ignores such a share, too."""
_LOOKS = 4
"""Samples of the sent bytes per window."""
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class Rehearsal:
    """Results of the rehearsed rounds."""

    ends_s: tuple[float, ...]
    """When the last node finished each round."""
    transfers_s: tuple[float, ...]
    """From sending to arrival, for the models of the later half."""
    peak_bytes_s: float
    """Rate of all nodes together in the busiest window."""

    @property
    def steady_s(self) -> float:
        """Duration of a round once all nodes wait for each other and their connections are open."""
        later = self.ends_s[(len(self.ends_s) - 1) // 2 :]
        return (later[-1] - later[0]) / (len(later) - 1) if len(later) > 1 else later[-1]

    def total_s(self, rounds: int) -> float:
        """Duration of that many rounds, if those that were not rehearsed take as long as the later half."""
        known = min(rounds, len(self.ends_s))
        return self.ends_s[known - 1] + (rounds - known) * self.steady_s


class Busiest:
    """The peak rate over a window, from samples of the total of sent bytes."""

    def __init__(self, window_s: float = LONGEST_WINDOW_S) -> None:
        self._window_s = window_s
        self._looks: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._found: list[tuple[float, int]] = []
        """Rate over the window before each sample, and the bytes since the previous sample."""

    def is_time(self, now_s: float) -> bool:
        return now_s - self._looks[-1][0] >= self._window_s / _LOOKS

    def look(self, now_s: float, sent_bytes: int) -> None:
        """Adds a sample; times do not decrease."""
        looks = self._looks
        new_bytes = sent_bytes - looks[-1][1]
        looks.append((now_s, sent_bytes))
        since_s = now_s - self._window_s
        while looks[1][0] <= since_s:
            looks.popleft()
        (first_s, first), (second_s, second) = looks[0], looks[1]
        # Interpolated between two samples.
        before = first + (second - first) * max(0.0, since_s - first_s) / max(second_s - first_s, _ROUNDING_S)
        self._found.append(((sent_bytes - before) / self._window_s, new_bytes))

    def bytes_s(self) -> float:
        """The rate that no window exceeded, but for `RARE` of all bytes."""
        left = RARE * sum(size for _, size in self._found)
        for rate, size in sorted(self._found, reverse=True):
            left -= size
            if left <= 0.0:
                return rate
        return 0.0


class RehearsedNetwork:
    """The virtual clock and the network of a rehearsal."""

    def __init__(self, plan: RunPlan, window_s: float) -> None:
        self.flows = flows_of(plan, network_before(plan.load_topology(), plan.expanded_network()))
        self.now_s = 0.0
        self._alarms: list[tuple[float, int, Then]] = []
        self._numbers = count()
        self._under_way: dict[Transfer, tuple[Then, float]] = {}
        self.transfers_s: list[float] = []
        """Durations of all measured messages."""
        self.busiest = Busiest(window_s)
        self._arrived_bytes = 0

    def after(self, seconds: float, then: Then) -> None:
        heappush(self._alarms, (self.now_s + seconds, next(self._numbers), then))

    def send(self, origin: int, dest: int, size: int, then: Then, *, measured: bool = False) -> None:
        """Sends a message and calls `then` on arrival; at once if it is to the sender itself."""
        if origin == dest:
            self.after(0.0, then)
            return
        self._under_way[self.flows.send(origin, dest, size)] = then, self.now_s if measured else math.nan

    def run(self, is_over: Callable[[], bool]) -> bool:
        """Runs until `over` is true; False if no event is left before that."""
        while not is_over():
            at_s = min(self.flows.next_s(), self._alarms[0][0] if self._alarms else math.inf)
            if math.isinf(at_s):
                return False
            self.now_s = at_s
            for news in self.flows.advance(at_s):
                if isinstance(news, Delivered):
                    then, since_s = self._under_way.pop(news.transfer)
                    self._arrived_bytes += news.transfer.size_bytes
                    if not math.isnan(since_s):
                        self.transfers_s.append(at_s - since_s)
                    then()
            while self._alarms and self._alarms[0][0] <= at_s:
                heappop(self._alarms)[2]()
            if self.busiest.is_time(at_s):
                self._look()
        self._look()
        return True

    def _look(self) -> None:
        on_their_way = sum(map(self.flows.sent_bytes, self._under_way))
        self.busiest.look(self.now_s, self._arrived_bytes + on_their_way)


@dataclass(frozen=True)
class Peers:
    """Messages of an algorithm without a server: all nodes train, send to some, wait for some."""

    messages: Callable[[int], Messages]
    """Recipients, by round."""
    size: int
    sampler: int | None = None
    notes: bool = False
    """Nodes that get no model get a note instead, and all wait for all."""
    wait_s: float | None = None
    """The fixed wait of a node that waits for no peer."""
    control_size: int = 0


class PeerRounds:
    """Rounds of peers."""

    def __init__(self, network: RehearsedNetwork, parts: Peers, compute_s: Mapping[int, float], rounds: int) -> None:
        self._network = network
        self._parts = parts
        self._compute_s = compute_s
        self._rounds = rounds
        self._done = dict.fromkeys(compute_s, 0)
        self._missing: dict[tuple[int, int], int] = {}
        """By learner and round: messages that are still missing. An entry exists once the learner has sent its own."""
        self._early: dict[tuple[int, int], int] = {}
        self._expected = [self._inverse(round_) for round_ in range(rounds)]
        self.ends_s = [0.0] * rounds

    def run(self) -> bool:
        for rank in self._compute_s:
            self._train(rank)
        return self._network.run(lambda: min(self._done.values()) >= self._rounds)

    def _inverse(self, round_: int) -> dict[int, int]:
        """The number of messages that each node gets."""
        expected = dict.fromkeys(self._compute_s, len(self._compute_s) - 1 if self._parts.notes else 0)
        if not self._parts.notes and self._parts.wait_s is None:
            for recipients in self._parts.messages(round_).values():
                for rank in recipients:
                    expected[rank] += 1
        return expected

    def _train(self, rank: int) -> None:
        then = partial(self._exchange, rank)
        sampler, size = self._parts.sampler, self._parts.control_size
        if sampler is None:
            self._network.after(self._compute_s[rank], then)
            return
        answer = partial(self._network.send, sampler, rank, size, then)
        self._network.after(self._compute_s[rank], partial(self._network.send, rank, sampler, size, answer))

    def _exchange(self, rank: int) -> None:
        parts, round_ = self._parts, self._done[rank]
        recipients = parts.messages(round_)[rank]
        for other in recipients:
            self._send(rank, other, round_, parts.size)
        if parts.notes:
            for other in sorted(self._compute_s.keys() - {rank, *recipients}):
                self._send(rank, other, round_, parts.control_size)
        place = rank, round_
        self._missing[place] = self._expected[round_][rank] - self._early.pop(place, 0)
        if parts.wait_s is None:
            self._look(place)
        else:
            self._network.after(parts.wait_s, partial(self._look, place))

    def _send(self, rank: int, other: int, round_: int, size: int) -> None:
        measured = size == self._parts.size and 2 * round_ >= self._rounds - 1
        self._network.send(rank, other, size, partial(self._arrive, (other, round_)), measured=measured)

    def _arrive(self, place: tuple[int, int]) -> None:
        if self._parts.wait_s is not None:
            return
        if place in self._missing:
            self._missing[place] -= 1
            self._look(place)
        else:
            self._early[place] = self._early.get(place, 0) + 1

    def _look(self, place: tuple[int, int]) -> None:
        """Continues once all messages are there."""
        if self._missing[place]:
            return
        del self._missing[place]
        rank, round_ = place
        self.ends_s[round_] = max(self.ends_s[round_], self._network.now_s)
        self._done[rank] = round_ + 1
        if round_ + 1 < self._rounds:
            self._train(rank)


@dataclass(frozen=True)
class Served:
    """Messages of an algorithm with a server: it sends to some clients, which compute and answer."""

    server: int
    asked: Callable[[int], tuple[int, ...]]
    """Clients by round."""
    enough: int
    """The number of answers that ends a round."""
    size: int
    deadline_s: float | None = None
    at_once: bool = False
    """Every client is answered as soon as its message arrives; a round has as many answers as there are clients."""


class ServerRounds:
    """Rounds of a server."""

    def __init__(self, network: RehearsedNetwork, parts: Served, compute_s: Mapping[int, float], rounds: int) -> None:
        self._network = network
        self._parts = parts
        self._compute_s = compute_s
        self._rounds = rounds
        self._round = 0
        self._answers = 0
        self.ends_s: list[float] = []

    def run(self) -> bool:
        self._ask_all()
        return self._network.run(lambda: len(self.ends_s) >= self._rounds)

    def _ask_all(self) -> None:
        for rank in self._parts.asked(self._round):
            self._ask(rank)
        if self._parts.deadline_s is not None:
            self._network.after(self._parts.deadline_s, partial(self._end, self._round))

    def _ask(self, rank: int) -> None:
        parts, network = self._parts, self._network
        measured = 2 * self._round >= self._rounds - 1
        arrive = partial(self._arrive, rank, self._round)
        answer = partial(network.send, rank, parts.server, parts.size, arrive, measured=measured)
        compute = partial(network.after, self._compute_s[rank], answer)
        network.send(parts.server, rank, parts.size, compute, measured=measured)

    def _arrive(self, rank: int, round_: int) -> None:
        if round_ != self._round and not self._parts.at_once:
            return
        self._answers += 1
        is_last = self._answers >= self._parts.enough
        if is_last:
            self._end(self._round)
        if self._parts.at_once:
            self._ask(rank)

    def _end(self, round_: int) -> None:
        if round_ != self._round:
            return
        self.ends_s.append(self._network.now_s)
        self._round += 1
        self._answers = 0
        if not self._parts.at_once and self._round < self._rounds:
            self._ask_all()


def window_of(latency_s: float) -> float:
    """The window for peak rates in a network of this latency."""
    return min(LONGEST_WINDOW_S, max(SHORTEST_WINDOW_S, _WINDOW_LATENCIES * latency_s))


def rehearse(
    plan: RunPlan, parts: Peers | Served, compute_s: Mapping[int, float], rounds: int, window_s: float
) -> Rehearsal | None:
    """Rehearses that many rounds, at least one; None if a node would wait for ever."""
    network = RehearsedNetwork(plan, window_s)
    rehearsed: PeerRounds | ServerRounds
    if isinstance(parts, Peers):
        rehearsed = PeerRounds(network, parts, compute_s, rounds)
    else:
        rehearsed = ServerRounds(network, parts, compute_s, rounds)
    if not rehearsed.run():
        return None
    return Rehearsal(tuple(rehearsed.ends_s), tuple(network.transfers_s), network.busiest.bytes_s())
