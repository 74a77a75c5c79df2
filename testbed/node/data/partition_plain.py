"""Partitions that ignore classes: at random, and by user.

Takes a data set, gives parts; touches nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.dataset import DataSet, Kind
from testbed.node.data.draws import permutation
from testbed.node.data.options import DataOptions
from testbed.node.data.problems import Impossible
from testbed.seeds import stream


def iid(dataset: DataSet, learners: int, options: DataOptions, seed: int) -> list[NDArray[np.int64]]:
    """Shuffles the samples and cuts them into parts whose sizes differ by at most one."""
    del options  # it has none
    return cut(permutation(stream(seed, "partition", "iid"), len(dataset.train)), learners)


def by_user(dataset: DataSet, learners: int, options: DataOptions, seed: int) -> list[NDArray[np.int64]]:
    """Deals whole users, in numbers that differ by at most one, in random order (LEAF) or by number."""
    usual = "contiguous" if dataset.kind is Kind.RATINGS else "shuffle"
    order = options.choice("order", usual, ("shuffle", "contiguous"))
    if dataset.train.groups is None:
        raise Impossible(
            f"{dataset.name} does not say which user a sample is of, so it cannot be divided by user",
            "take iid, shards or dirichlet, or a data set with users (`testbed data list`)",
        )
    users, owner = np.unique(dataset.train.groups, return_inverse=True)
    if learners > len(users):
        raise Impossible(
            f"{dataset.name} has {len(users)} users with samples to train on, too few for {learners} learners"
        )
    mixed = np.arange(len(users), dtype=np.int64)
    if order == "shuffle":
        mixed = permutation(stream(seed, "partition", "user"), len(users))
    learner_of_user = np.empty(len(users), np.int64)
    for learner, own in enumerate(np.array_split(mixed, learners)):
        learner_of_user[own] = learner
    learner_of_sample = learner_of_user[owner]
    by_learner = np.argsort(learner_of_sample, kind="stable")
    return np.split(by_learner, np.searchsorted(learner_of_sample[by_learner], np.arange(1, learners)))


def cut(indices: NDArray[np.int64], pieces: int) -> list[NDArray[np.int64]]:
    """Cuts a list into runs whose lengths differ by at most one."""
    ends = np.arange(1, pieces, dtype=np.int64) * len(indices) // pieces
    return np.split(indices, ends)
