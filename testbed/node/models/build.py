"""Makes a model: one that comes with the package, by name, or a researcher's own, as `module:Class` or `file.py:Class`.

Takes a name, options, a data set and a seed, gives a torch module; touches nothing besides running a researcher's file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import torch
from torch import nn

from testbed.code import CodeProblem, call, is_code, load_object
from testbed.errors import did_you_mean
from testbed.node.data.dataset import DataSet
from testbed.node.models.catalogue import built_in
from testbed.node.models.problems import ModelProblem
from testbed.seeds import derive
from testbed.units import shown


def build_model(spec: str, options: Mapping[str, object], dataset: DataSet, seed: int) -> nn.Module:
    """The model with its initial weights: the same for one seed wherever and after whatever it is made.

    Torch's own stream of random numbers goes on afterwards as if nothing had been drawn from it.
    """
    own = is_code(spec)
    make = load_object(spec if own else built_in(spec).code)
    if not callable(make):
        raise CodeProblem(f"`{spec}` is not a class: it cannot be called with a data set")
    _check_options(spec, make, options)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(derive(seed, "init"))
        model = call(spec, make, dataset, **options) if own else make(dataset, **options)
    if not isinstance(model, nn.Module):
        raise CodeProblem(f"`{spec}` gives a {type(model).__name__}, not a torch.nn.Module")
    return model.float()


def _check_options(spec: str, make: Callable[..., object], options: Mapping[str, object]) -> None:
    """Nobody may believe that an option works which nothing reads."""
    parameters = list(inspect.signature(make).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known) or "it has no options"
            raise ModelProblem(f"model {spec} has no option {shown(name)}", hint)
