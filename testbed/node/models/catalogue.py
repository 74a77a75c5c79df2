"""The models that come with the package.

Takes a name, gives what there is to know about it without loading torch; touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.errors import did_you_mean
from testbed.node.models.problems import ModelProblem
from testbed.units import shown


@dataclass(frozen=True)
class BuiltIn:
    """A model by its name."""

    name: str
    code: str
    """Where its class is, as `module:Class`."""
    description: str


_PACKAGE = "testbed.node.models"
BUILT_IN = {
    each.name: each
    for each in (
        BuiltIn("gn-lenet", f"{_PACKAGE}.gn_lenet:GNLeNet", "three convolutions with group normalisation, for images"),
        BuiltIn(
            "mlp", f"{_PACKAGE}.perceptrons:MLP", "fully connected layers; option `hidden`, a list of their widths"
        ),
        BuiltIn("logistic", f"{_PACKAGE}.perceptrons:Logistic", "one linear layer: logistic regression"),
        BuiltIn("mf", f"{_PACKAGE}.factorisation:MatrixFactorisation", "users times items; option `factors`"),
    )
}


def built_in(name: str) -> BuiltIn:
    """The model of that name; raises ModelProblem when there is none."""
    if name not in BUILT_IN:
        hint = did_you_mean(name, BUILT_IN)
        raise ModelProblem(f"there is no model {shown(name)}", f"{hint} (your own is module:Class or file.py:Class)")
    return BUILT_IN[name]
