"""Dirichlet partition: each class is spread over the learners in random shares; smaller `alpha` is more uneven.

Takes a data set, gives parts; touches nothing. Shares are drawn class by class; a learner that already has its fair
number of samples gets none of the next class (Lin et al., Ensemble Distillation for Robust Model Fusion, 2020). A draw
that leaves a learner with too few samples is discarded, a bounded number of times.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.dataset import DataSet, Kind
from testbed.node.data.draws import permutation
from testbed.node.data.options import DataOptions
from testbed.node.data.problems import Impossible
from testbed.seeds import stream

TRIES = 30


def dirichlet(dataset: DataSet, learners: int, options: DataOptions, seed: int) -> list[NDArray[np.int64]]:
    """Every learner gets at least `min` samples; by default as many as there are classes, or one if too few exist."""
    if dataset.kind is not Kind.CLASSES:
        raise Impossible(f"{dataset.name} has no classes to spread", "take iid or user")
    alpha = options.number("alpha", 0.1, 1e-3, 1e6)
    least = options.whole("min", dataset.classes, 1)
    count = len(dataset.train)
    strict = options.given("min")
    if strict and least * learners > count:
        raise Impossible(f"{learners} learners cannot have {least} samples each: {dataset.name} has {count}")
    most = -1
    for attempt in range(TRIES):
        owners = _owners(dataset, learners, alpha, stream(seed, "partition", "dirichlet", str(attempt)))
        fewest = int(np.bincount(owners, minlength=learners).min())
        if fewest > most:
            most, best = fewest, owners
        if fewest >= least:
            break
    if most < least and strict:
        raise Impossible(
            f"no Dirichlet partition with alpha {alpha:g} and at least {least} samples for each of {learners} learners "
            f"in {TRIES} tries (the best had {most})",
            "take a larger alpha, a smaller `min`, or fewer learners",
        )
    _fill_empty_learners(best, learners)
    order = np.argsort(best, kind="stable")
    return np.split(order, np.searchsorted(best[order], np.arange(1, learners)))


def _owners(dataset: DataSet, learners: int, alpha: float, random: Random) -> NDArray[np.int64]:
    """Draws the learner of every sample."""
    targets = dataset.train.targets
    owners = np.empty(len(targets), np.int64)
    held = np.zeros(learners, np.int64)
    for label in range(dataset.classes):
        members = np.flatnonzero(targets == label)
        if not len(members):
            continue
        members = members[permutation(random, len(members))]
        shares = np.fromiter((random.gammavariate(alpha, 1.0) for _ in range(learners)), np.float64, learners)
        shares[held * learners >= len(targets)] = 0.0
        if not shares.sum() > 0:
            # With a tiny alpha all shares may round to zero: in the limit one learner has the whole class.
            hungry = np.flatnonzero(held * learners < len(targets))
            shares[hungry[int(random.random() * len(hungry))]] = 1.0
        # Cumulated in rank order and scaled by its own end, so that the last cut is exactly the last sample.
        ends = np.cumsum(shares)
        ends = np.floor(ends / ends[-1] * len(members)).astype(np.int64)
        sizes = np.diff(ends, prepend=0)
        owners[members] = np.repeat(np.arange(learners), sizes)
        held += sizes
    return owners


def _fill_empty_learners(owners: NDArray[np.int64], learners: int) -> None:
    """Gives each learner without samples one sample of the learner with the most, in rank order."""
    held = np.bincount(owners, minlength=learners)
    for learner in np.flatnonzero(held == 0):
        richest = int(held.argmax())
        given = np.flatnonzero(owners == richest)[-1]
        owners[given] = learner
        held[richest] -= 1
        held[learner] += 1
