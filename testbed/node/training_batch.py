"""A minibatch as a model sees it, and its loss.

Takes samples by their indices, gives tensors; touches nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from testbed.node.data.dataset import DataSet, Kind, Samples

Indices = NDArray[np.intp] | NDArray[np.int32]


def batch_of(dataset: DataSet, samples: Samples, indices: Indices, *, channels_last: bool) -> tuple[Tensor, Tensor]:
    """Inputs and targets in memory of torch: results must not depend on the alignment of a numpy array."""
    found = torch.from_numpy(dataset.batch(samples, np.asarray(indices, np.intp)))
    layout = torch.channels_last if channels_last else torch.contiguous_format
    inputs = torch.empty(found.shape, dtype=found.dtype, memory_format=layout).copy_(found)
    return inputs, torch.tensor(samples.targets[indices])


def loss_of(module: nn.Module, kind: Kind, outputs: Tensor, targets: Tensor) -> Tensor:
    """The model's own loss if it has one; else cross entropy, or the mean squared error of ratings."""
    own = getattr(module, "loss", None)
    if own is not None:
        loss: Tensor = own(outputs, targets)
        return loss
    if kind is Kind.RATINGS:
        return functional.mse_loss(outputs, targets)
    return functional.cross_entropy(outputs, targets)
