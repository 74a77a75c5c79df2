"""Shard partition: runs of samples sorted by class, a few for each learner, so that it sees few classes.

Takes a data set, gives parts; touches nothing. Two variants: `grid`, where the sorted samples are cut into equal
shards that are dealt at random (McMahan et al., Communication-Efficient Learning of Deep Networks from
Decentralized Data, 2017), and `decpy`, which takes random runs of the remaining samples, as DecentralizePy does.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.dataset import DataSet, Kind
from testbed.node.data.draws import permutation
from testbed.node.data.options import DataOptions
from testbed.node.data.partition_plain import cut
from testbed.node.data.problems import Impossible
from testbed.seeds import stream


def shards(dataset: DataSet, learners: int, options: DataOptions, seed: int) -> list[NDArray[np.int64]]:
    """Deals `per_node` shards to each learner."""
    if dataset.kind is not Kind.CLASSES:
        raise Impossible(f"{dataset.name} has no classes to sort shards by", "take iid or user")
    per_node = options.whole("per_node", 2, 1, 10_000)
    variant = options.choice("variant", "grid", ("grid", "decpy"))
    count = len(dataset.train)
    if learners * per_node > count:
        raise Impossible(
            f"{learners} learners with {per_node} shards each need {learners * per_node} samples, "
            f"{dataset.name} has {count}",
            "take fewer shards (data.partition.per_node), fewer learners, or larger data",
        )
    by_class = np.argsort(dataset.train.targets, kind="stable")
    if variant == "grid":
        return _grid(by_class, learners, per_node, seed)
    return _decpy(by_class, learners, per_node, seed)


def _grid(by_class: NDArray[np.int64], learners: int, per_node: int, seed: int) -> list[NDArray[np.int64]]:
    pieces = cut(by_class, learners * per_node)
    deal = permutation(stream(seed, "partition", "shards"), len(pieces))
    return [np.concatenate([pieces[at] for at in own]) for own in deal.reshape(learners, per_node)]


def _decpy(by_class: NDArray[np.int64], learners: int, per_node: int, seed: int) -> list[NDArray[np.int64]]:
    """DecentralizePy's parts for that seed, except that the last learner also gets the few samples left over."""
    # Seeded with the bare number, not with one of our streams, so that results can be compared with that system.
    random = Random(seed)  # noqa: S311 - experiments are repeated, not kept secret
    count = len(by_class)
    fraction = (count // learners) / count
    parts = []
    left = by_class
    for learner in range(learners):
        is_last = learner == learners - 1
        share = fraction + (1.0 - fraction * learners) if is_last else fraction
        length = int(share * count) // per_node
        if length == 0:
            raise Impossible(
                f"a shard of this variant would be empty: {count} samples, {learners} learners with {per_node} each",
                "take fewer shards or learners, or the variant grid",
            )
        runs = []
        for _ in range(per_node):
            start = random.randint(0, len(left) - 1)
            over = max(0, start + length - len(left))
            runs += [left[start : start + length], left[:over]]
            left = np.concatenate([left[over:start], left[start + length :]])
        parts.append(np.concatenate(runs))
    parts[-1] = np.concatenate([parts[-1], left])
    return parts
