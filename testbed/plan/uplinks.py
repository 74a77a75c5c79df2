"""What uplinks carry where nodes wait for nothing: such nodes can send more than their links carry.

Takes a `RunPlan`, gives times and bytes; pure. A node's uplink is the best path to any of its recipients; that TCP
starts slowly does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.catalogue.algorithm_facts import OutboxPolicy
from testbed.catalogue.exchanges import WithPeers
from testbed.network.flows import Tcp
from testbed.plan.model import RunPlan
from testbed.plan.outbox import outbox_of
from testbed.plan.round_messages import traffic_of
from testbed.plan.traffic import exchange_in
from testbed.plan.transfer_times import TransferTimes

_ALL = 0.95
"""From this share on all has left, but for what has just been posted."""
_LEAST = 0.01
"""With few rounds, nothing may have left so far."""
_DRAWS = 4
"""Rounds over which bytes are averaged where nodes draw their recipients."""


@dataclass(frozen=True)
class Uplinks:
    """Rounds that take their computing time, whatever becomes of their messages."""

    policy: OutboxPolicy
    compute_s: Mapping[int, float]
    """Of a round, by learner."""
    sent_bytes: Mapping[int, float]
    """Posted in a round, answers included."""
    send_s: Mapping[int, float]
    """In which the messages of a round can leave, by learner."""
    to_busy: Mapping[int, float]
    """The part of a learner's messages that goes to learners which, too, are late: they send more than can leave, or to
    one that cannot take all that comes. The others finish with their last round, and what waits for them is cut."""

    @property
    def share(self) -> float:
        """What the most loaded uplink carries of the bytes that its node posts; at most 1."""
        return min(map(self._share, self.compute_s), default=1.0)

    @property
    def overloaded(self) -> int:
        """The number of nodes that post more than their uplinks carry."""
        return sum(self._share(rank) < 1.0 for rank in self.compute_s)

    def total_s(self, rounds: int) -> float:
        """Until the last message of so many rounds has left."""
        return max(self._total_s(rank, rounds) for rank in self.compute_s)

    def total_bytes(self, rounds: int | None, limit_s: float | None) -> int:
        """Bytes that leave all nodes within so many rounds, or until the time is over."""
        return round(sum(self._total_bytes(rank, rounds, limit_s) for rank in self.compute_s))

    def _share(self, rank: int) -> float:
        send_s = self.send_s[rank]
        return min(1.0, self.compute_s[rank] / send_s) if send_s else 1.0

    def _total_s(self, rank: int, rounds: int) -> float:
        return rounds * self.compute_s[rank] + self._at_the_end(rank, rounds) * self.send_s[rank]

    def _total_bytes(self, rank: int, rounds: int | None, limit_s: float | None) -> float:
        posted, compute_s = self.sent_bytes[rank], self.compute_s[rank]
        until_s = limit_s if limit_s is not None and (rounds is None or limit_s < self._total_s(rank, rounds)) else None
        if until_s is not None:
            return posted * until_s / compute_s * self._share(rank)
        assert rounds is not None  # noqa: S101 - or there is a limit
        return posted * ((rounds - 1) * self._share(rank) + self._at_the_end(rank, rounds))

    def _at_the_end(self, rank: int, rounds: int) -> float:
        """How many rounds' messages leave after the last round. What it posts is not dropped for newer messages."""
        share = self._share(rank)
        if self.policy != "fifo" or share == 1.0:
            return 1.0
        return (rounds - (rounds - 1) * share) * self.to_busy[rank]


def uplinks_of(
    plan: RunPlan, compute_s: Mapping[int, float], transfers: TransferTimes, rehearsed: Mapping[int, float]
) -> Uplinks | None:
    """The uplinks of nodes that wait for nothing; None if nodes wait.

    `rehearsed` has the shares that left in a rehearsal: a slow recipient, too, holds up those that send to it. With
    `fifo` a few rounds say too little: all messages leave in the end.
    """
    exchange = exchange_in(plan)
    if not isinstance(exchange, WithPeers) or not exchange.is_free or plan.overlay.sampler is not None:
        return None
    pairs: list[tuple[int, int]] = []
    sent = dict.fromkeys(compute_s, 0.0)
    arriving_bytes_s = dict.fromkeys(compute_s, 0.0)
    for round_ in range(_DRAWS):
        for phase in traffic_of(plan, round_).phases:
            pairs.extend(phase.pairs)
            for (origin, dest), size in zip(phase.pairs, phase.sizes, strict=True):
                sent[origin] += size / _DRAWS
                arriving_bytes_s[dest] += size / _DRAWS / compute_s[origin]
    rates = {rank: rate * Tcp().goodput for rank, rate in transfers.uplink_bytes_s(pairs).items()}
    policy = outbox_of(plan.experiment).policy
    send_s = {rank: sent[rank] / rates[rank] if sent[rank] else 0.0 for rank in compute_s}
    for rank, share in rehearsed.items():
        if share < _ALL and policy != "fifo":
            send_s[rank] = max(send_s[rank], compute_s[rank] / max(share, _LEAST))
    down = {rank: rate * Tcp().goodput for rank, rate in transfers.downlink_bytes_s(pairs).items()}
    # Who sends to a node that cannot take all that comes is as late.
    full = {rank for rank, rate in down.items() if arriving_bytes_s[rank] > rate}
    busy = {rank for rank in compute_s if send_s[rank] > compute_s[rank]}
    busy |= {origin for origin, dest in pairs if dest in full}
    every, to_busy = Counter(origin for origin, _ in pairs), Counter(origin for origin, dest in pairs if dest in busy)
    shares = {rank: to_busy[rank] / every[rank] if every[rank] else 0.0 for rank in compute_s}
    return Uplinks(policy, compute_s, sent, send_s, shares)
