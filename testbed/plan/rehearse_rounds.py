"""Rounds in which nodes wait for messages, to be rehearsed.

Takes the messages of rounds and a `RehearsedNetwork`, gives the ends of rounds; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from testbed.plan.rehearsed_network import RehearsedNetwork, Then


@dataclass(frozen=True)
class Post:
    """One message of a round, to be sent when its sender has trained."""

    to: int
    size: int
    answer: int
    """The size of the message with which the recipient answers at once; 0: it does not."""
    part: int
    """Which fragment of a model it is; 0 for whole ones."""


Posts = Mapping[int, tuple[Post, ...]]
"""The messages of a round, by sender."""


@dataclass(frozen=True)
class Peers:
    """Rounds without a server: all nodes train, send to some, and wait for those that send to them, or for a time."""

    messages: Callable[[int], Posts]
    """By round."""
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
            for sender, posts in self._parts.messages(round_).items():
                for post in posts:
                    expected[post.to] += 1
                    expected[sender] += post.answer > 0
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
        posts = parts.messages(round_)[rank]
        for post in posts:
            then = partial(self._send, post.to, rank, round_, post.answer) if post.answer else None
            self._send(rank, post.to, round_, post.size, then)
        if parts.notes:
            for other in sorted(self._compute_s.keys() - {rank, *(post.to for post in posts)}):
                self._send(rank, other, round_, parts.control_size)
        place = rank, round_
        self._missing[place] = self._expected[round_][rank] - self._early.pop(place, 0)
        if parts.wait_s is None:
            self._look(place)
        else:
            self._network.after(parts.wait_s, partial(self._look, place))

    def _send(self, rank: int, other: int, round_: int, size: int, then: Then | None = None) -> None:
        measured = size > self._parts.control_size and 2 * round_ >= self._rounds - 1
        self._network.send(rank, other, size, partial(self._arrive, (other, round_), then), measured=measured)

    def _arrive(self, place: tuple[int, int], then: Then | None) -> None:
        if then is not None:
            then()
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
    down: int
    """The size of the server's message."""
    up: int
    """The size of a client's."""
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
        answer = partial(network.send, rank, parts.server, parts.up, arrive, measured=measured)
        compute = partial(network.after, self._compute_s[rank], answer)
        network.send(parts.server, rank, parts.down, compute, measured=measured)

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
