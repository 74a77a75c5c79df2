"""What uplinks carry where nodes wait for nothing: such nodes can send more than their links carry.

Takes a `RunPlan`, gives times and bytes; pure. A node's uplink is the best path to any of its recipients; that TCP
starts slowly does not count.
"""

from __future__ import annotations

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
    rate_bytes_s: Mapping[int, float]
    """At which messages leave those that send."""

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

    def _send_s(self, rank: int) -> float:
        """Time in which the messages of a round can leave."""
        posted = self.sent_bytes.get(rank, 0)
        return posted / self.rate_bytes_s[rank] if posted else 0.0

    def _share(self, rank: int) -> float:
        send_s = self._send_s(rank)
        return min(1.0, self.compute_s[rank] / send_s) if send_s else 1.0

    def _total_s(self, rank: int, rounds: int) -> float:
        compute_s, send_s = self.compute_s[rank], self._send_s(rank)
        kept = send_s if self.policy == "fifo" else min(send_s, compute_s)
        return rounds * compute_s + max(send_s, rounds * (kept - compute_s) + compute_s)

    def _total_bytes(self, rank: int, rounds: int | None, limit_s: float | None) -> float:
        posted, compute_s = self.sent_bytes.get(rank, 0), self.compute_s[rank]
        until_s = limit_s if limit_s is not None and (rounds is None or limit_s < self._total_s(rank, rounds)) else None
        if until_s is not None:
            return posted * until_s / compute_s * self._share(rank)
        assert rounds is not None  # noqa: S101 - or there is a limit
        kept = 1.0 if self.policy == "fifo" else self._share(rank)
        # What the last round posts is not dropped for newer messages.
        return posted * ((rounds - 1) * kept + 1)


def uplinks_of(plan: RunPlan, compute_s: Mapping[int, float], transfers: TransferTimes) -> Uplinks | None:
    """The uplinks of nodes that wait for nothing; None if nodes wait."""
    exchange = exchange_in(plan)
    if not isinstance(exchange, WithPeers) or not exchange.is_free or plan.overlay.sampler is not None:
        return None
    pairs: list[tuple[int, int]] = []
    sent = dict.fromkeys(compute_s, 0.0)
    for round_ in range(_DRAWS):
        for phase in traffic_of(plan, round_).phases:
            pairs.extend(phase.pairs)
            for (origin, _), size in zip(phase.pairs, phase.sizes, strict=True):
                sent[origin] += size / _DRAWS
    rates = {rank: rate * Tcp().goodput for rank, rate in transfers.uplink_bytes_s(pairs).items()}
    return Uplinks(outbox_of(plan.experiment).policy, compute_s, sent, rates)
