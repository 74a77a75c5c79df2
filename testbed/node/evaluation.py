"""Evaluates a model on samples.

Takes a module, a data set and which samples, gives a score; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.training_batch import Indices, batch_of, loss_of
from testbed.node.training_settings import Score, TrainingFailed

_AT_ONCE = 16
"""Samples in one forward pass, which needs no more memory than a training step with a batch of 8. A pass over 32 is
faster by a twentieth, but then evaluation alone decides how much memory each node keeps."""


Turn = Callable[[], AbstractContextManager[object]]
"""Entered around each part of an evaluation; may wait for its turn."""


def evaluate(
    module: nn.Module,
    dataset: DataSet,
    samples: Samples,
    indices: Indices,
    *,
    channels_last: bool,
    turn: Turn = nullcontext,
) -> Score:
    """Score of the module on the chosen samples."""
    if not len(indices):
        raise TrainingFailed("there are no samples to evaluate the model on")
    module.eval()
    judge = _Ratings(dataset) if dataset.kind is Kind.RATINGS else _Classes(module)
    with torch.no_grad():
        for first in range(0, len(indices), _AT_ONCE):
            some = indices[first : first + _AT_ONCE]
            with turn():
                inputs, targets = batch_of(dataset, samples, some, channels_last=channels_last)
                judge.see(module(inputs), targets)
    score = judge.score(len(indices))
    if not math.isfinite(score.loss):
        raise TrainingFailed(f"the loss in evaluation is {score.loss}")
    return score


class _Classes:
    """Mean loss, and the share of samples whose class gets the highest score."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._loss = 0.0
        self._right = 0

    def see(self, outputs: Tensor, targets: Tensor) -> None:
        self._loss += loss_of(self._module, Kind.CLASSES, outputs, targets).item() * len(targets)
        self._right += int((outputs.argmax(1) == targets).sum().item())

    def score(self, samples: int) -> Score:
        return Score(self._right / samples, self._loss / samples, samples)


class _Ratings:
    """Root of the mean squared error, and the share that is right after rounding to the scale."""

    def __init__(self, dataset: DataSet) -> None:
        self._step = scale_step(dataset.train.targets)
        self._lowest, self._highest = float(dataset.train.targets.min()), float(dataset.train.targets.max())
        self._squares = 0.0
        self._right = 0

    def see(self, outputs: Tensor, targets: Tensor) -> None:
        difference = outputs.double() - targets.double()
        self._squares += float(difference.square().sum().item())
        if self._step is not None:
            rounded = (outputs.double() / self._step).round() * self._step
            self._right += int((rounded.clamp(self._lowest, self._highest) == targets).sum().item())

    def score(self, samples: int) -> Score:
        accuracy = None if self._step is None else self._right / samples
        return Score(accuracy, math.sqrt(self._squares / samples), samples)


def scale_step(ratings: NDArray[np.float32]) -> float | None:
    """The step of the rating scale, a whole or a half; None for ratings on no such scale."""
    for step in (1.0, 0.5):
        if bool((np.rint(ratings / step) * step == ratings).all()):
            return step
    return None
