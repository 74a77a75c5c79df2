"""Rehearses the first rounds of a run: all messages without the learning, over the fluid network model.

Takes a `RunPlan`, the messages of its rounds and each learner's computing time, gives the ends of rounds; touches
nothing. Runs in virtual time use the same model with the same draws, so their rounds take as long as rehearsed here. In
a rehearsal no node fails, speeds stay as at the start, and the network has no events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.plan.model import RunPlan
from testbed.plan.rehearse_free import Free, FreeRounds
from testbed.plan.rehearse_rounds import PeerRounds, Peers, Served, ServerRounds
from testbed.plan.rehearse_turns import TurnRounds, Turns
from testbed.plan.rehearsed_network import RehearsedNetwork

Parts = Peers | Served | Free | Turns
"""The messages of all rounds."""


@dataclass(frozen=True)
class Rehearsal:
    """Results of the rehearsed rounds."""

    ends_s: tuple[float, ...]
    """When the last node finished each round."""
    transfers_s: tuple[float, ...]
    """From sending to arrival, for the models of the later half."""
    peak_bytes_s: float
    """Rate of all nodes together in the busiest window."""
    shares: Mapping[int, float]
    """By learner: what has left of the bytes that it posted in the later half, where nodes wait for nothing."""

    @property
    def steady_s(self) -> float:
        """Duration of a round once all nodes wait for each other and their connections are open."""
        later = self.ends_s[(len(self.ends_s) - 1) // 2 :]
        return (later[-1] - later[0]) / (len(later) - 1) if len(later) > 1 else later[-1]

    def total_s(self, rounds: int) -> float:
        """Duration of that many rounds, if those that were not rehearsed take as long as the later half."""
        known = min(rounds, len(self.ends_s))
        return self.ends_s[known - 1] + (rounds - known) * self.steady_s


def rehearse(
    plan: RunPlan, parts: Parts, compute_s: Mapping[int, float], rounds: int, window_s: float
) -> Rehearsal | None:
    """Rehearses that many rounds, at least one; None if a node would wait for ever."""
    network = RehearsedNetwork(plan, window_s)
    rehearsed: PeerRounds | ServerRounds | FreeRounds | TurnRounds
    match parts:
        case Peers():
            rehearsed = PeerRounds(network, parts, compute_s, rounds)
        case Served():
            rehearsed = ServerRounds(network, parts, compute_s, rounds)
        case Free():
            rehearsed = FreeRounds(network, parts, compute_s, rounds)
        case Turns():
            rehearsed = TurnRounds(network, parts, compute_s, rounds)
    if not rehearsed.run():
        return None
    shares = rehearsed.shares if isinstance(rehearsed, FreeRounds) else {}
    return Rehearsal(tuple(rehearsed.ends_s), tuple(network.transfers_s), network.busiest.bytes_s(), shares)
