"""Rounds in which only some learners work, to be rehearsed.

Takes the learners of rounds and a `RehearsedNetwork`, gives the ends of rounds; touches nothing. Each learner of a
round gets a model, trains it, exchanges it with some others of the round, and passes it on: to one learner of the next
round, or to the one that collects all models and hands out their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from testbed.plan.rehearsed_network import RehearsedNetwork, Then

_Place = tuple[int, int]
"""A round, and a position among its learners."""


@dataclass(frozen=True)
class Turns:
    """Rounds of which each has its own learners."""

    active: Callable[[int], tuple[int, ...]]
    """The learners of a round, by position."""
    meets: int
    """With how many of the others each exchanges models: those of the next positions."""
    collected: bool
    """The first learner of the next round collects all models."""
    to_all: bool
    """All learners of the next round get all models."""
    size: int
    ping_size: int | None
    """Of the pings that go before a model, and of their answers; None: none go."""


class TurnRounds:
    """Rounds of learners in turns."""

    def __init__(self, network: RehearsedNetwork, parts: Turns, compute_s: Mapping[int, float], rounds: int) -> None:
        self._network = network
        self._parts = parts
        self._compute_s = compute_s
        self._rounds = rounds
        self._learners = [parts.active(round_) for round_ in range(rounds + 1)]
        self._missing: dict[_Place, int] = {}
        """Until a model is passed on: its own training, and the models of those it meets."""
        self._mixed: dict[_Place, int] = {}
        """How many models have come to each."""
        self._passed = [0] * rounds
        self.ends_s: list[float] = [0.0] * rounds

    def run(self) -> bool:
        for position in range(len(self._learners[0])):
            self._train((0, position))
        return self._network.run(lambda: self._passed[-1] >= len(self._learners[-1]))

    def _train(self, place: _Place) -> None:
        round_, position = place
        if round_ < self._rounds:
            rank = self._learners[round_][position]
            self._network.after(self._compute_s[rank], partial(self._exchange, place))

    def _exchange(self, place: _Place) -> None:
        round_, position = place
        count = len(self._learners[round_])
        for step in range(1, 1 + self._met(round_)):
            other = round_, (position + step) % count
            self._send(place, other, partial(self._arrive, other))
        self._arrive(place)

    def _arrive(self, place: _Place) -> None:
        """One of the things that a learner waits for is there."""
        round_, position = place
        self._missing[place] = self._missing.get(place, 1 + self._met(round_)) - 1
        if self._missing[place]:
            return
        if self._parts.to_all:
            self._send_to(place, self._places_of(round_ + 1), self._mix)
        else:
            self._send_to(place, [(round_ + 1, 0 if self._parts.collected else position)], self._pass_on)

    def _mix(self, place: _Place) -> None:
        """One of the models of a round has arrived at a learner of the next one, which waits for all of them."""
        round_ = place[0]
        self._mixed[place] = self._mixed.get(place, 0) + 1
        if self._mixed[place] == len(self._learners[round_ - 1]):
            self._passed[round_ - 1] += 1
            self.ends_s[round_ - 1] = self._network.now_s
            self._train(place)

    def _pass_on(self, place: _Place) -> None:
        """A model has arrived at a learner of the next round."""
        round_ = place[0]
        self._passed[round_ - 1] += 1
        self.ends_s[round_ - 1] = self._network.now_s
        if not self._parts.collected:
            self._train(place)
        elif self._passed[round_ - 1] == len(self._learners[round_ - 1]):
            self._send_to(place, self._places_of(round_), self._train)

    def _places_of(self, round_: int) -> list[_Place]:
        return [(round_, position) for position in range(len(self._learners[round_]))]

    def _send_to(self, sender: _Place, places: list[_Place], then: Callable[[_Place], None]) -> None:
        """Sends a model to each of these, once all of them have answered a ping if that is usual."""

        def send() -> None:
            for place in places:
                self._send(sender, place, partial(then, place))

        size = self._parts.ping_size
        if size is None:
            send()
            return
        origin = self._rank_of(sender)
        unanswered = {rank for rank in map(self._rank_of, places) if rank != origin}
        if not unanswered:
            send()

        def answered(rank: int) -> None:
            unanswered.discard(rank)
            if not unanswered:
                send()

        for rank in sorted(unanswered):
            back = partial(self._network.send, rank, origin, size, partial(answered, rank), measured=False)
            self._network.send(origin, rank, size, back, measured=False)

    def _rank_of(self, place: _Place) -> int:
        round_, position = place
        return self._learners[round_][position]

    def _met(self, round_: int) -> int:
        return min(self._parts.meets, len(self._learners[round_]) - 1)

    def _send(self, sender: _Place, to: _Place, then: Then) -> None:
        origin, dest = (self._learners[round_][position] for round_, position in (sender, to))
        measured = 2 * sender[0] >= self._rounds - 1
        self._network.send(origin, dest, self._parts.size, then, measured=measured)
