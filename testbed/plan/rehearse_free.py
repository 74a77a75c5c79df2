"""Rounds in which nodes wait for nothing, to be rehearsed.

Takes the messages of rounds and a `RehearsedNetwork`, gives the ends of rounds; touches nothing. A round takes its
computing time. Its messages leave beside the work of the next rounds, in the order and number that the outbox allows:
where a link cannot carry them, those that wait become more and more, or are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from testbed.catalogue.algorithm_facts import OutboxFacts
from testbed.plan.rehearse_rounds import Post, Posts
from testbed.plan.rehearsed_network import RehearsedNetwork


@dataclass(frozen=True)
class Free:
    """Rounds in which no node waits for others."""

    messages: Callable[[int], Posts]
    """By round."""
    outbox: OutboxFacts
    control_size: int
    """Messages of at most this size are never dropped for newer ones."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that has not started."""

    post: Post
    round: int


class FreeRounds:
    """Rounds of nodes that do not wait."""

    def __init__(self, network: RehearsedNetwork, parts: Free, compute_s: Mapping[int, float], rounds: int) -> None:
        self._network = network
        self._parts = parts
        self._compute_s = compute_s
        self._rounds = rounds
        self._done = dict.fromkeys(compute_s, 0)
        self._outboxes = {rank: RehearsedOutbox(parts, partial(self._ship, rank)) for rank in compute_s}
        self.ends_s = [0.0] * rounds
        self._before: dict[int, tuple[int, int]] = {}
        self.shares: dict[int, float] = {}
        """By learner: what has left of the bytes that it posted in the later half."""

    def run(self) -> bool:
        for rank in self._compute_s:
            self._train(rank)
        return self._network.run(lambda: min(self._done.values()) >= self._rounds)

    def _train(self, rank: int) -> None:
        self._network.after(self._compute_s[rank], partial(self._end, rank))

    def _end(self, rank: int) -> None:
        round_ = self._done[rank]
        self._note(rank, round_)
        for post in self._parts.messages(round_)[rank]:
            self._outboxes[rank].post(Waiting(post, round_))
        self.ends_s[round_] = max(self.ends_s[round_], self._network.now_s)
        self._done[rank] = round_ + 1
        if round_ + 1 < self._rounds:
            self._train(rank)

    def _note(self, rank: int, round_: int) -> None:
        """Compares the bytes that a learner has posted and sent, from the middle of its rounds to the last one."""
        outbox = self._outboxes[rank]
        if round_ == self._rounds // 2:
            self._before[rank] = outbox.posted_bytes, outbox.left_bytes
        if round_ == self._rounds - 1:
            posted, left = self._before[rank]
            if outbox.posted_bytes > posted:
                self.shares[rank] = (outbox.left_bytes - left) / (outbox.posted_bytes - posted)

    def _ship(self, rank: int, waiting: Waiting) -> None:
        post = waiting.post
        measured = post.size > self._parts.control_size and 2 * waiting.round >= self._rounds - 1
        arrive, left = partial(self._arrive, rank, post), partial(self._outboxes[rank].left, post)
        self._network.send(rank, post.to, post.size, arrive, measured=measured, on_left=left)

    def _arrive(self, sender: int, post: Post) -> None:
        if post.answer:
            answer = Post(sender, post.answer, answer=0, part=post.part)
            self._outboxes[post.to].post(Waiting(answer, self._done[post.to]))


class RehearsedOutbox:
    """The messages that a node has not sent yet; to each peer one is under way."""

    def __init__(self, parts: Free, ship: Callable[[Waiting], None]) -> None:
        self._parts = parts
        self._ship = ship
        self._waiting: deque[Waiting] = deque()
        self._moving: set[int] = set()
        self._round = -1
        self.posted_bytes = 0
        self.left_bytes = 0

    def post(self, new: Waiting) -> None:
        self.posted_bytes += new.post.size
        if self._is_model(new):
            self._drop_for(new)
        self._waiting.append(new)
        self._start()

    def left(self, post: Post) -> None:
        """This message has left."""
        self.left_bytes += post.size
        self._moving.discard(post.to)
        self._start()

    def _drop_for(self, new: Waiting) -> None:
        match self._parts.outbox.policy:
            case "flush" if new.round > self._round:
                self._waiting = deque(each for each in self._waiting if not self._is_model(each))
            case "latest":
                place = new.post.to, new.post.part
                self._waiting = deque(
                    each
                    for each in self._waiting
                    if (each.post.to, each.post.part) != place or not self._is_model(each)
                )
        self._round = max(self._round, new.round)

    def _start(self) -> None:
        """Starts the oldest messages whose peers are free."""
        most, kept = self._parts.outbox.in_flight, deque[Waiting]()
        while self._waiting and (most is None or len(self._moving) < most):
            each = self._waiting.popleft()
            if each.post.to in self._moving:
                kept.append(each)
                continue
            self._moving.add(each.post.to)
            self._ship(each)
        kept.extend(self._waiting)
        self._waiting = kept

    def _is_model(self, each: Waiting) -> bool:
        return each.post.size > self._parts.control_size
