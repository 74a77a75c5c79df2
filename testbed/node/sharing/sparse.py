"""The base class of sharings that send a part of the parameters.

Takes options, gives the choice between a part and the whole; touches nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from random import Random

from testbed.node.messages import Message
from testbed.node.sharing.base import Sharing
from testbed.node.world import Vector


class Sparse(Sharing):
    """Sends a `fraction` of the parameters; from `dense_above` on all of them, as `Sharing` does."""

    def __init__(self, random: Random, fraction: float = 0.1, dense_above: float = 0.5) -> None:
        super().__init__(random)
        self.fraction = checked_share("fraction", fraction)
        self.dense = self.fraction >= checked_share("dense_above", dense_above)

    def encode(self, model: Vector, round_: int) -> Message:
        return super().encode(model, round_) if self.dense else self.encode_part(model, round_)

    @abstractmethod
    def encode_part(self, model: Vector, round_: int) -> Message:
        """One immutable message with a part of the model, for all recipients of this round."""


def checked_share(option: str, value: float) -> float:
    """A part of a whole, 0 to 1, as an option."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{option} must be a number from 0 to 1, not {value!r}")
    return float(value)
