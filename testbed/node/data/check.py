"""Checks that what a researcher's function returned is a data set that learners can work with.

Takes any object, gives it back as a `DataSet` or raises `Impossible`; touches nothing.
"""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.data.problems import Impossible

_INPUTS = {Kind.CLASSES: ("uint8", "float32"), Kind.RATINGS: ("int32",)}
_TARGETS = {Kind.CLASSES: "int64", Kind.RATINGS: "float32"}


def checked(found: object, where: str) -> DataSet:
    """The object itself, if it keeps what `DataSet` promises."""
    if not isinstance(found, DataSet):
        _bad(where, f"returned {type(found).__name__}, not a DataSet")
    if found.kind is Kind.CLASSES and found.classes < 2:
        _bad(where, f"a data set needs two classes, not {found.classes}")
    channels = found.input_shape[:1] or (1,)
    for name in ("mean", "std"):
        values = getattr(found, name)
        if len(values) not in (0, 1, *channels) or not all(math.isfinite(value) for value in values):
            _bad(where, f"`{name}` must be empty, or have a number for each of {channels[0]} channels")
    if not all(value > 0 for value in found.std) or not found.scale > 0:
        _bad(where, "`std` and `scale` must be more than 0")
    for part in ("train", "test"):
        _check_samples(found, getattr(found, part), part, where)
    if not len(found.train):
        _bad(where, "there is nothing to train on")
    return found


def _check_samples(dataset: DataSet, samples: Samples, part: str, where: str) -> None:
    inputs, targets, groups = samples.inputs, samples.targets, samples.groups
    if not all(isinstance(array, np.ndarray) for array in (inputs, targets)):
        _bad(where, f"{part}: inputs and targets must be numpy arrays")
    if str(inputs.dtype) not in _INPUTS[dataset.kind] or str(targets.dtype) != _TARGETS[dataset.kind]:
        expected = f"inputs of {' or '.join(_INPUTS[dataset.kind])} and targets of {_TARGETS[dataset.kind]}"
        _bad(where, f"{part}: expected {expected}, got {inputs.dtype} and {targets.dtype}")
    if inputs.shape[1:] != dataset.input_shape:
        _bad(where, f"{part}: inputs have the shape {inputs.shape[1:]}, `input_shape` says {dataset.input_shape}")
    if targets.ndim != 1 or len(inputs) != len(targets) or (groups is not None and groups.shape != targets.shape):
        _bad(where, f"{part}: inputs, targets and groups must be of one length")
    if not len(targets):
        return
    if dataset.kind is Kind.CLASSES:
        if targets.min() < 0 or targets.max() >= dataset.classes:
            _bad(where, f"{part}: classes must lie between 0 and {dataset.classes - 1}")
    elif inputs.min() < 0 or inputs[:, 0].max() >= dataset.users or inputs[:, 1].max() >= dataset.items:
        _bad(where, f"{part}: a pair is outside of {dataset.users} users and {dataset.items} items")
    for name, array in (("inputs", inputs), ("targets", targets)):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            _bad(where, f"{part}: {name} must be finite")


def _bad(where: str, what: str) -> NoReturn:
    raise Impossible(f"{where}: {what}")
