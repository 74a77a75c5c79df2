"""Settings, results and errors of training.

Takes nothing, gives types; touches nothing, and knows no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Settings of stochastic gradient descent, from the experiment."""

    lr: float
    batch: int
    steps: int | None = 1
    """Local steps a round; None if `epochs` is set."""
    epochs: int | None = None
    """Passes over the node's own samples a round."""
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Score:
    """How good a model is on some samples."""

    accuracy: float | None
    """0 to 1: the share of correct answers, for ratings after rounding to the scale. None if not applicable."""
    loss: float
    """The mean; for ratings the root of the mean squared error."""
    samples: int


class ComputingLost(Exception):
    """A worker that computes for the nodes has failed unexpectedly: no node is at fault, and none can go on."""

    def __init__(self, message: str, told: str | None = None) -> None:
        super().__init__(told or message)
        self.message = message
        """For journals: nothing in it depends on the host."""


class TrainingFailed(Exception):
    """Training gave NaN or infinite numbers, or there were no samples; says at which local step."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
