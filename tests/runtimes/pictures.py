"""Pictures of no meaning, so that a convolutional model can be trained without a download."""

from __future__ import annotations

import numpy as np

from testbed.node.data.dataset import DataSet, Kind, Samples


def pictures(seed: int) -> DataSet:
    """Ten classes of 1×28×28, each of noise around a picture of its own."""
    draws = np.random.default_rng(seed)
    centres = draws.integers(0, 200, size=(10, 1, 28, 28))

    def samples(count: int) -> Samples:
        targets = np.arange(count, dtype=np.int64) % 10
        inputs = (centres[targets] + draws.integers(0, 55, size=(count, 1, 28, 28))).astype(np.uint8)
        return Samples(inputs, targets)

    return DataSet("pictures", Kind.CLASSES, 10, (1, 28, 28), 0, 0, samples(800), samples(100), scale=1 / 255)
