"""Partitions of a data set: every sample to train on goes to exactly one learner.

Takes a data set, a number of learners, a kind of partition with its options and a seed, gives the indices of each
learner's samples in ascending order; touches nothing. The same arguments give the same parts on every machine, so
every node can compute its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from testbed.errors import did_you_mean
from testbed.node.data.dataset import DataSet, Kind
from testbed.node.data.options import DataOptions
from testbed.node.data.partition_dirichlet import dirichlet
from testbed.node.data.partition_plain import by_user, iid
from testbed.node.data.partition_shards import shards
from testbed.node.data.problems import Impossible
from testbed.units import shown

Part = NDArray[np.int64]
Divide = Callable[[DataSet, int, DataOptions, int], list[Part]]

KINDS: Mapping[str, Divide] = MappingProxyType({"iid": iid, "shards": shards, "dirichlet": dirichlet, "user": by_user})


def partition(dataset: DataSet, learners: int, kind: str, options: Mapping[str, object], seed: int) -> list[Part]:
    """The parts of all learners, none empty; raises `Impossible` when no such partition exists."""
    if kind not in KINDS:
        raise Impossible(f"there is no partition called {shown(kind)}", did_you_mean(kind, KINDS))
    count = len(dataset.train)
    if learners < 1:
        raise Impossible(f"a partition needs a learner, not {learners}")
    if learners > count:
        hint = "take a larger data set, or fewer learners"
        raise Impossible(f"{dataset.name} has {count} samples to train on, too few for {learners} learners", hint)
    given = DataOptions(options, f"the partition {kind}")
    parts = KINDS[kind](dataset, learners, given, seed)
    given.done()
    return [np.sort(part) for part in parts]


def test_parts(dataset: DataSet, parts: list[Part]) -> list[Part]:
    """The test samples of each learner: all of them, or for ratings those of the users that it trains on.

    Raises `Impossible` when a learner has none: its models could not be evaluated.
    """
    if not len(dataset.test):
        raise Impossible(f"{dataset.name} has nothing to test with")
    if dataset.kind is Kind.CLASSES or dataset.train.groups is None or dataset.test.groups is None:
        everything = np.arange(len(dataset.test), dtype=np.int64)
        return [everything] * len(parts)
    owners, tested = dataset.train.groups, dataset.test.groups
    found: list[Part] = []
    for part in parts:
        is_own = np.zeros(dataset.users, np.bool_)
        is_own[owners[part]] = True
        own = np.flatnonzero(is_own[tested]).astype(np.int64)
        if not len(own):
            raise Impossible(
                f"learner {len(found)} of {len(parts)} has no ratings to test with: "
                f"{dataset.name} has none by the users that it trains on",
                "take fewer learners, or leave out users with a single rating, which is to train with",
            )
        found.append(own)
    return found


test_parts.__test__ = False  # type: ignore[attr-defined]  # not a test, despite its name


def targets_of(dataset: DataSet) -> NDArray[np.float64] | NDArray[np.int64]:
    """All targets: the classes, or the ratings that occur, in ascending order."""
    if dataset.kind is Kind.CLASSES:
        return np.arange(dataset.classes, dtype=np.int64)
    return np.unique(dataset.train.targets).astype(np.float64)


def histogram(dataset: DataSet, parts: list[Part]) -> NDArray[np.int64]:
    """Number of samples of each target (columns, as in `targets_of`) for each learner (rows)."""
    known = targets_of(dataset)
    columns = np.searchsorted(known, dataset.train.targets)
    return np.stack([np.bincount(columns[part], minlength=len(known)) for part in parts]).astype(np.int64)
