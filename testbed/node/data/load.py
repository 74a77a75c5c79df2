"""Opens a data set by its name, or by the name of a researcher's function that makes one.

Takes `fashion-mnist`, `module:function` or `path/to/file.py:function`, options and a seed, gives a `DataSet`;
touches the cache of data sets and, when one has to be fetched first, the network. What a function returns is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, Protocol, cast

import numpy as np

from testbed import code
from testbed.node.data import store
from testbed.node.data.catalogue import CatalogueEntry, entry_of
from testbed.node.data.catalogue_check import check_facts, dataset_of
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.data.digits import load_digits
from testbed.node.data.fetch import Tell, ensure, silently
from testbed.node.data.options import DataOptions
from testbed.node.data.problems import Impossible
from testbed.node.data.ratings import read_ratings, split_ratings
from testbed.node.data.synthetic import make_synthetic

_INPUTS = {Kind.CLASSES: ("uint8", "float32"), Kind.RATINGS: ("int32",)}
_TARGETS = {Kind.CLASSES: "int64", Kind.RATINGS: "float32"}
Fetched = Callable[[], Path]
"""Gives the folder of what is stored, and fetches it first where it is not here."""


class Loader(Protocol):
    """What the table of data sets names as `code`."""

    def __call__(
        self, entry: CatalogueEntry, options: Mapping[str, object], seed: int, fetched: Fetched
    ) -> DataSet: ...


def load_dataset(
    spec: str,
    options: Mapping[str, object],
    seed: int,
    cache: Path | None = None,
    tell: Tell = silently,
) -> DataSet:
    """The data set, with its arrays mapped or read-only; the same for the same spec, options and seed."""
    if code.is_code(spec):
        return _from_code(spec, options, seed)
    entry = entry_of(spec)
    load = cast("Loader", code.load_object(entry.facts.code))
    return load(entry, options, seed, lambda: ensure(spec, cache=cache, tell=tell))


def load_pictures(entry: CatalogueEntry, options: Mapping[str, object], _seed: int, fetched: Fetched) -> DataSet:
    """Stored as they were fetched."""

    def stored() -> DataSet:
        arrays = store.read(entry, fetched())
        train, test = (Samples(arrays[f"{part}_inputs"], arrays[f"{part}_targets"]) for part in ("train", "test"))
        return dataset_of(entry, train, test)

    return _normalised(entry, options, stored)


def load_installed_pictures(
    entry: CatalogueEntry, options: Mapping[str, object], _seed: int, _fetched: Fetched
) -> DataSet:
    """Those that come with scikit-learn."""
    return _normalised(entry, options, lambda: load_digits(entry))


def load_ratings(entry: CatalogueEntry, options: Mapping[str, object], seed: int, fetched: Fetched) -> DataSet:
    """Those that were fetched, or of a file that an option names."""
    given = DataOptions(options, f"the data set {entry.name}")
    path = given.text("path", "")
    given.done()
    if path:
        return split_ratings(entry.name, *read_ratings(Path(path)), seed)
    arrays = store.read(entry, fetched())
    return check_facts(entry, split_ratings(entry.name, arrays["pairs"], arrays["ratings"], seed))


def load_synthetic(entry: CatalogueEntry, options: Mapping[str, object], seed: int, _fetched: Fetched) -> DataSet:
    """Made from the seed."""
    return make_synthetic(entry, options, seed)


def _normalised(entry: CatalogueEntry, options: Mapping[str, object], read: Callable[[], DataSet]) -> DataSet:
    given = DataOptions(options, f"the data set {entry.name}")
    normalise = given.choice("normalise", "channel", ("channel", "half", "none"))
    given.done()
    dataset = read()
    if normalise == "channel":
        return dataset
    # `half` brings 0…1 to -1…1, as many published scripts do.
    middle = (0.5,) * len(entry.mean) if normalise == "half" else ()
    return replace(dataset, mean=middle, std=middle)


def _from_code(spec: str, options: Mapping[str, object], seed: int) -> DataSet:
    """Calls `function(seed=…, **options)` and checks its result."""
    try:
        function = code.load_object(spec)
        if not callable(function):
            raise code.CodeProblem(f"{spec} is not a function")
        found = code.call(spec, function, seed=seed, **{str(name): value for name, value in options.items()})
    except code.CodeProblem as problem:
        raise Impossible(f"cannot make the data set {spec}: {problem}") from problem
    return _checked(found, spec)


def _checked(found: object, where: str) -> DataSet:
    """Returns the object if it fulfils what `DataSet` promises; raises Impossible otherwise."""
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
