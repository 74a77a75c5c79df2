"""Opens a data set by its name, or by the name of a function that makes one.

Takes `fashion-mnist`, `module:function` or `path/to/file.py:function`, options and a seed, gives a `DataSet`;
touches the cache of data sets and, when one has to be fetched first, the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

from testbed import code
from testbed.node.data import store
from testbed.node.data.catalogue import Entry, entry_of
from testbed.node.data.check import checked
from testbed.node.data.dataset import DataSet, Samples
from testbed.node.data.digits import load_digits
from testbed.node.data.facts import check_facts, dataset_of
from testbed.node.data.fetch import Tell, ensure, silently
from testbed.node.data.options import Options
from testbed.node.data.problems import Impossible
from testbed.node.data.ratings import read_ratings, split_ratings
from testbed.node.data.synthetic import make_synthetic

Fetched = Callable[[], Path]
"""Gives the folder of what is stored, and fetches it first where it is not here."""


class Loader(Protocol):
    """What the table of data sets names as `code`."""

    def __call__(self, entry: Entry, options: Mapping[str, object], seed: int, fetched: Fetched) -> DataSet: ...


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


def load_pictures(entry: Entry, options: Mapping[str, object], _seed: int, fetched: Fetched) -> DataSet:
    """Stored as they were fetched."""

    def stored() -> DataSet:
        arrays = store.read(entry, fetched())
        train, test = (Samples(arrays[f"{part}_inputs"], arrays[f"{part}_targets"]) for part in ("train", "test"))
        return dataset_of(entry, train, test)

    return _normalised(entry, options, stored)


def load_installed_pictures(entry: Entry, options: Mapping[str, object], _seed: int, _fetched: Fetched) -> DataSet:
    """Those that come with scikit-learn."""
    return _normalised(entry, options, lambda: load_digits(entry))


def load_ratings(entry: Entry, options: Mapping[str, object], seed: int, fetched: Fetched) -> DataSet:
    """Those that were fetched, or of a file that an option names."""
    given = Options(options, f"the data set {entry.name}")
    path = given.text("path", "")
    given.done()
    if path:
        return split_ratings(entry.name, *read_ratings(Path(path)), seed)
    arrays = store.read(entry, fetched())
    return check_facts(entry, split_ratings(entry.name, arrays["pairs"], arrays["ratings"], seed))


def load_synthetic(entry: Entry, options: Mapping[str, object], seed: int, _fetched: Fetched) -> DataSet:
    """Made from the seed."""
    return make_synthetic(entry, options, seed)


def _normalised(entry: Entry, options: Mapping[str, object], read: Callable[[], DataSet]) -> DataSet:
    given = Options(options, f"the data set {entry.name}")
    normalise = given.choice("normalise", "channel", ("channel", "half", "none"))
    given.done()
    dataset = read()
    if normalise == "channel":
        return dataset
    # `half` brings 0…1 to -1…1, as many published scripts do.
    middle = (0.5,) * len(entry.mean) if normalise == "half" else ()
    return replace(dataset, mean=middle, std=middle)


def _from_code(spec: str, options: Mapping[str, object], seed: int) -> DataSet:
    """Called as `function(seed=…, **options)`."""
    try:
        function = code.load_object(spec)
        if not callable(function):
            raise code.CodeProblem(f"{spec} is not a function")
        found = code.call(spec, function, seed=seed, **{str(name): value for name, value in options.items()})
    except code.CodeProblem as problem:
        raise Impossible(f"cannot make the data set {spec}: {problem}") from problem
    return checked(found, spec)
