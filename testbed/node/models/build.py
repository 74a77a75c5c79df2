"""Makes a model: one that comes with the package, by name, or a researcher's own, as `module:Class` or `file.py:Class`.

Takes a name, options, a data set and a seed, gives a torch module; touches nothing besides running a researcher's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from testbed.catalogue.models import MODELS, ModelFacts
from testbed.code import CodeProblem, OnlyHere, call, is_code, load_object
from testbed.errors import did_you_mean
from testbed.memory import available_bytes
from testbed.node.data.dataset import DataSet
from testbed.node.models.problems import ModelProblem
from testbed.node.models.signature import DATA_FIRST, check_call, seems_for_data
from testbed.seeds import derive
from testbed.units import shown, size_for_people

_FLOAT_BYTES = 4
_COPIES = 3
"""A model, its gradient, and the model that training makes of it."""


def build_model(spec: str, options: Mapping[str, object], dataset: DataSet, seed: int) -> nn.Module:
    """The model with its initial weights: the same for one seed wherever and after whatever it is made.

    Torch's own stream of random numbers goes on afterwards as if nothing had been drawn from it.
    """
    facts = None if is_code(spec) else _facts_of(spec)
    make = load_object(spec if facts is None else facts.code)
    if not callable(make):
        raise CodeProblem(f"`{spec}` is not a class: it cannot be called with a data set")
    check_call(spec, make, options)
    with torch.random.fork_rng(devices=()):
        if facts is not None and not facts.is_usual(options):
            _check_memory(spec, make, dataset, options)
        torch.manual_seed(derive(seed, "init"))
        model = _called(spec, make, dataset, options) if facts is None else make(dataset, **options)
    if not isinstance(model, nn.Module):
        raise CodeProblem(f"`{spec}` gives a {type(model).__name__}, not a torch.nn.Module")
    return model.float()


def _facts_of(name: str) -> ModelFacts:
    """The model of that name; raises ModelProblem when there is none."""
    if name not in MODELS:
        hint = did_you_mean(name, MODELS)
        raise ModelProblem(f"there is no model {shown(name)}", f"{hint} (your own is module:Class or file.py:Class)")
    return MODELS[name]


def _check_memory(spec: str, make: Callable[..., object], dataset: DataSet, options: Mapping[str, object]) -> None:
    """Raises ModelProblem for a model that this machine has no room for, before it takes any of it."""
    try:
        with torch.device("meta"):  # shapes without numbers
            model = make(dataset, **options)
    except RuntimeError as problem:  # more than can be counted
        raise ModelProblem(f"{spec} cannot be made with these options: {problem}", "choose a smaller model") from None
    assert isinstance(model, nn.Module)  # noqa: S101 - it comes with the package
    parameters = sum(each.numel() for each in model.parameters())
    try:
        there = available_bytes()
    except OSError:  # another system than Linux does not tell
        return
    if _COPIES * _FLOAT_BYTES * parameters > there:
        raise ModelProblem(
            f"{spec} with these options has {parameters:,} parameters: to train it once takes "
            f"{size_for_people(_COPIES * _FLOAT_BYTES * parameters)}, {size_for_people(there)} are left",
            "choose a smaller model",
        )


def _called(spec: str, make: Callable[..., object], dataset: DataSet, options: Mapping[str, object]) -> object:
    try:
        return call(spec, make, dataset, **options)
    except CodeProblem as problem:
        # Whoever expects a number where the data set comes hears of it from torch, in words about tensors.
        if isinstance(problem.__cause__, TypeError) and not seems_for_data(make):
            raise OnlyHere(f"{problem.message}; {DATA_FIRST}", problem.file, problem.line) from problem
        raise
