"""Generates a data set from the seed: every user labels its own samples with its own linear classifier.

Takes a seed and options, gives a data set; touches nothing. The construction follows the synthetic data set of LEAF
(Caldas et al., LEAF: A Benchmark for Federated Settings, 2018, appendix): users belong to clusters, a user's
classifier is its cluster's plus `spread` of its own, its samples lie around a centre of its own, features matter
less and less, and the label is the class with the largest score. The same seed and options give the same bits on
every machine.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from testbed.node.data.catalogue import CatalogueEntry
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.data.draws import normals, permutation
from testbed.node.data.options import DataOptions
from testbed.node.data.problems import Impossible
from testbed.seeds import stream

_NOISE = 0.1
_TEST_ONE_IN = 5


def make_synthetic(entry: CatalogueEntry, options: Mapping[str, object], seed: int) -> DataSet:
    """Options: samples, users, classes, features, clusters, spread."""
    given = DataOptions(options, f"the data set {entry.name}")
    samples = given.whole("samples", entry.train + entry.test, 10, 2_000_000)
    users = given.whole("users", entry.users, 1, 100_000)
    classes = given.whole("classes", entry.classes, 2, 1000)
    features = given.whole("features", entry.input_shape[0], 1, 10_000)
    clusters = given.whole("clusters", 1, 1, 1000)
    spread = given.number("spread", 0.3, 0.0, 100.0)
    given.done()
    if samples * features > 200_000_000 or users * classes * features > 200_000_000:
        raise Impossible(f"the data set {entry.name} would not fit into memory", "ask for fewer samples or features")
    if samples < 2 * users:
        raise Impossible(f"{samples} samples are too few for {users} users", "two for each are the least")

    common = normals(stream(seed, entry.name, "clusters"), clusters, features + 1, classes)
    centres = spread * normals(stream(seed, entry.name, "centres"), users, features)
    scales = 1.0 / np.sqrt(np.arange(1.0, features + 1.0))
    # Users in equal numbers per cluster, samples in equal numbers per user, as far as they divide.
    owners = np.arange(samples, dtype=np.int64) * users // samples
    inputs = np.empty((samples, features), np.float32)
    targets = np.empty(samples, np.int64)
    for user in range(users):
        own = np.flatnonzero(owners == user)
        random = stream(seed, entry.name, "user", str(user))
        weights = common[user % clusters] + spread * normals(random, features + 1, classes)
        values = (centres[user] + normals(random, len(own), features)) * scales
        inputs[own] = values
        scores = weights[-1] + _NOISE * normals(random, len(own), classes)
        for feature in range(features):  # in a fixed order: a library's product may sum in any
            scores += values[:, feature, np.newaxis] * weights[feature]
        targets[own] = scores.argmax(axis=1)
    within = np.arange(samples) - np.searchsorted(owners, owners)
    is_test = within % _TEST_ONE_IN == 1  # samples of a user are independent: any one in five will do
    parts = []
    for part, chosen in (("train", np.flatnonzero(~is_test)), ("test", np.flatnonzero(is_test))):
        mixed = chosen[permutation(stream(seed, entry.name, "order", part), len(chosen))]
        arrays = inputs[mixed], targets[mixed], owners[mixed].astype(np.int32)
        for array in arrays:
            array.flags.writeable = False
        parts.append(Samples(*arrays))
    return DataSet(
        name=entry.name,
        kind=Kind.CLASSES,
        classes=classes,
        input_shape=(features,),
        users=users,
        items=0,
        train=parts[0],
        test=parts[1],
    )
