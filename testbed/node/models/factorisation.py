"""Matrix factorisation, for recommending.

Takes pairs (user, item), gives the predicted rating; touches nothing. Only the rows of the users and items of a
minibatch get a gradient.
"""

from __future__ import annotations

from torch import Tensor, nn

from testbed.node.data.dataset import DataSet, Kind
from testbed.node.models.problems import ModelProblem

_SPREAD = 0.05


class MatrixFactorisation(nn.Module):
    """A vector per user and one per item; the rating is their product. No biases."""

    def __init__(self, data: DataSet, factors: int = 20) -> None:
        super().__init__()
        if data.kind is not Kind.RATINGS:
            raise ModelProblem(f"mf learns ratings, which {data.name} has not")
        if type(factors) is not int or factors < 1:
            raise ModelProblem(f"mf: `factors` must be a whole number of at least 1, not {factors!r}")
        self.users = nn.Embedding(data.users, factors)
        self.items = nn.Embedding(data.items, factors)
        for rows in (self.users, self.items):
            nn.init.uniform_(rows.weight, -_SPREAD, _SPREAD)

    def forward(self, inputs: Tensor) -> Tensor:
        users: Tensor = self.users(inputs[:, 0])
        items: Tensor = self.items(inputs[:, 1])
        return (users * items).sum(1)
