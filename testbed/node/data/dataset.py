"""A data set in memory: samples to train on and to test with, and how they become a model's inputs.

Takes arrays, gives batches; touches nothing (the arrays may be mapped from files, and are never written).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Kind(StrEnum):
    """What a model predicts for a sample."""

    CLASSES = "classes"
    """The class of the sample."""
    RATINGS = "ratings"
    """A user's rating of an item."""


@dataclass(frozen=True)
class Samples:
    """Samples in a fixed order, all arrays of the same length."""

    inputs: NDArray[Any]
    """Images N×C×H×W of uint8, features N×F of float32, or pairs (user, item) N×2 of int32."""
    targets: NDArray[Any]
    """Classes as int64, or ratings as float32."""
    groups: NDArray[np.int32] | None = None
    """The user (writer, speaker …) of each sample, where the data set knows one."""

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class DataSet:
    """Everything that a learner needs to know of its data."""

    name: str
    kind: Kind
    classes: int
    """0 for ratings."""
    input_shape: tuple[int, ...]
    """Shape of one sample."""
    users: int
    """0 where samples have no users."""
    items: int
    """0 for classes."""
    train: Samples
    test: Samples
    mean: tuple[float, ...] = ()
    """Of the scaled inputs, per channel or one for all; empty: inputs are not normalised."""
    std: tuple[float, ...] = ()
    scale: float = 1.0
    """Factor of raw inputs: 1/255 maps a byte to 0…1."""

    def batch(self, samples: Samples, indices: NDArray[np.intp]) -> NDArray[np.float32] | NDArray[np.int64]:
        """The chosen samples as a new array: normalised float32, or int64 pairs for ratings."""
        chosen = samples.inputs[indices]
        if self.kind is Kind.RATINGS:
            return chosen.astype(np.int64)
        inputs: NDArray[np.float32] = chosen.astype(np.float32)
        factor, offset = self._affine
        inputs *= factor
        inputs += offset
        return inputs

    @cached_property
    def _affine(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Factor and summand that scale and normalise in one step."""
        mean = np.asarray(self.mean or (0.0,), np.float64)
        std = np.asarray(self.std or (1.0,), np.float64)
        shape = (-1, *(1,) * (len(self.input_shape) - 1))
        return (
            (self.scale / std).astype(np.float32).reshape(shape),
            (-mean / std).astype(np.float32).reshape(shape),
        )
