"""Makes a model: a built-in one by name, or a researcher's own as `module:Class` or `file.py:Class`.

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
    """The model with its initial weights, which depend on the seed alone.

    The state of torch's own random stream is kept.
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
    """The catalogue's entry of that name; raises ModelProblem if there is none."""
    if name not in MODELS:
        hint = did_you_mean(name, MODELS)
        raise ModelProblem(f"there is no model {shown(name)}", f"{hint} (your own is module:Class or file.py:Class)")
    return MODELS[name]


def _check_memory(spec: str, make: Callable[..., object], dataset: DataSet, options: Mapping[str, object]) -> None:
    """Raises ModelProblem for a model that does not fit into this machine's memory, before any is allocated."""
    try:
        with torch.device("meta"):  # shapes without numbers
            model = make(dataset, **options)
    except RuntimeError as problem:  # more than an integer of torch can hold
        raise ModelProblem(f"{spec} cannot be made with these options: {problem}", "choose a smaller model") from None
    assert isinstance(model, nn.Module)  # noqa: S101 - it comes with the package
    parameters = sum(each.numel() for each in model.parameters())
    try:
        there = available_bytes()
    except OSError:  # unknown on systems other than Linux
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
        # A model that expects a number where the data set comes fails in torch, with words about tensors.
        if isinstance(problem.__cause__, TypeError) and not seems_for_data(make):
            raise OnlyHere(f"{problem.message}; {DATA_FIRST}", problem.file, problem.line) from problem
        raise
