"""GN-LeNet, the usual small image model of decentralized learning.

Takes images, gives a score per class; touches nothing. Group normalisation keeps no running statistics, which averaging
over nodes with different data would spoil.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from testbed.node.data.dataset import DataSet, Kind
from testbed.node.models.problems import ModelProblem

_WIDTHS = (32, 32, 64)
_GROUPS = 2


class GNLeNet(nn.Module):
    """Three times 5×5 convolution, group normalisation, ReLU and pooling by two; then one linear layer."""

    def __init__(self, data: DataSet) -> None:
        super().__init__()
        if data.kind is not Kind.CLASSES or len(data.input_shape) != 3 or min(data.input_shape[1:]) < 8:
            raise ModelProblem(f"gn-lenet learns classes of images of at least 8×8 pixels, which {data.name} has not")
        channels, height, width = data.input_shape
        layers: list[nn.Module] = []
        for filters in _WIDTHS:
            layers += [
                nn.Conv2d(channels, filters, kernel_size=5, padding=2),
                nn.GroupNorm(_GROUPS, filters),
                nn.ReLU(inplace=True),  # no gradient needs its input, and every node keeps the memory
                nn.MaxPool2d(2),
            ]
            channels, height, width = filters, height // 2, width // 2
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels * height * width, data.classes)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.classifier(torch.flatten(self.features(inputs), 1))
        return scores
