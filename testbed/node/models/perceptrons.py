"""Fully connected models: a multilayer perceptron and logistic regression.

Takes anything of a fixed shape, gives a score per class; touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from testbed.node.data.dataset import DataSet, Kind
from testbed.node.models.problems import ModelProblem


class MLP(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, data: DataSet, hidden: Sequence[int] = (32,)) -> None:
        super().__init__()
        if data.kind is not Kind.CLASSES:
            raise ModelProblem(f"mlp learns classes, which {data.name} has not", "model `mf` is for ratings")
        if not isinstance(hidden, list | tuple) or not all(type(width) is int and width > 0 for width in hidden):
            raise ModelProblem(f"mlp: `hidden` must be a list of whole numbers, not {hidden!r}", "such as [64, 32]")
        widths = [prod(data.input_shape), *hidden, data.classes]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layers(torch.flatten(inputs, 1))
        return scores


class Logistic(nn.Module):
    """Multinomial logistic regression: convex, so that its optimum does not depend on the way to it."""

    def __init__(self, data: DataSet) -> None:
        super().__init__()
        if data.kind is not Kind.CLASSES:
            raise ModelProblem(f"logistic learns classes, which {data.name} has not", "model `mf` is for ratings")
        self.linear = nn.Linear(prod(data.input_shape), data.classes)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.linear(torch.flatten(inputs, 1))
        return scores
