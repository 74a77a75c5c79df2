"""How to train, what came of it, and what can go wrong.

Takes nothing, gives types; touches nothing, and knows no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Stochastic gradient descent, as an experiment sets it."""

    lr: float
    batch: int
    steps: int | None = 1
    """Local steps a round; None where `epochs` counts."""
    epochs: int | None = None
    """Passes over the node's own samples a round."""
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Score:
    """How good a model is on some samples."""

    accuracy: float | None
    """0 to 1: the share that is right; for ratings after rounding to the scale. None where that means nothing."""
    loss: float
    """The mean; for ratings the root of the mean squared error."""
    samples: int


class ComputingLost(Exception):
    """What computes for the nodes is gone, or met what nobody foresaw: no node's fault, but none can go on."""

    def __init__(self, message: str, told: str | None = None) -> None:
        super().__init__(told or message)
        self.message = message
        """For journals: nothing in it depends on the host."""


class TrainingFailed(Exception):
    """Training left the numbers, or there was nothing to train on; says at which local step."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
