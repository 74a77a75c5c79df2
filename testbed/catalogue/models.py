"""The models that come with the package.

Pure. An entry is all that is said of a model outside of its own file, its page and its tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.catalogue.options import Option, Type, Values
from testbed.catalogue.tables import by_name


@dataclass(frozen=True)
class ModelFacts:
    """One model."""

    name: str
    code: str
    summary: str
    options: tuple[Option, ...]

    def is_usual(self, options: Values) -> bool:
        """Whether all options have their defaults, with which every model here is small."""
        return all(options.get(option.name, option.default) == option.default for option in self.options)


_PACKAGE = "testbed.node.models"

DEFAULT_MODEL = "gn-lenet"
"""Of data sets that name no other."""
MODELS = by_name(
    ModelFacts(
        name="gn-lenet",
        code=f"{_PACKAGE}.gn_lenet:GNLeNet",
        summary="three convolutions with group normalisation, for images",
        options=(),
    ),
    ModelFacts(
        name="mlp",
        code=f"{_PACKAGE}.perceptrons:MLP",
        summary="a multi-layer perceptron: fully connected layers",
        options=(Option("hidden", Type.WIDTHS, (32,), "Widths of the hidden layers."),),
    ),
    ModelFacts(
        name="logistic",
        code=f"{_PACKAGE}.perceptrons:Logistic",
        summary="one linear layer: logistic regression",
        options=(),
    ),
    ModelFacts(
        name="mf",
        code=f"{_PACKAGE}.factorisation:MatrixFactorisation",
        summary="matrix factorisation: users times items",
        options=(Option("factors", Type.POSITIVE, 20, "Numbers by which users and items are described."),),
    ),
)
