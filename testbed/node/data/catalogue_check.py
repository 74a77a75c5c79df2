"""Checks a data set against its entry in the catalogue, by which plans are made before the data is there.

Takes an entry of the catalogue and samples, gives a `DataSet` or raises `Impossible`; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from testbed.node.data.catalogue import CatalogueEntry
from testbed.node.data.dataset import DataSet, Samples
from testbed.node.data.problems import Impossible


def dataset_of(entry: CatalogueEntry, train: Samples, test: Samples) -> DataSet:
    """A data set of these samples, checked against its entry."""
    return check_facts(
        entry,
        DataSet(
            name=entry.name,
            kind=entry.kind,
            classes=entry.classes,
            input_shape=entry.input_shape,
            users=entry.users,
            items=entry.items,
            train=train,
            test=test,
            mean=entry.mean,
            std=entry.std,
            scale=entry.scale,
        ),
    )


def check_facts(entry: CatalogueEntry, dataset: DataSet) -> DataSet:
    """Returns the data set; raises Impossible where it differs from its entry."""
    for what, said, found in _facts(entry, dataset):
        if said != found:
            hint = f"`testbed data fetch {entry.name}` checks what is there" if entry.needs_download else ""
            raise Impossible(f"the data set {entry.name} is damaged: {what}: expected {said}, got {found}", hint)
    return dataset


def _facts(entry: CatalogueEntry, dataset: DataSet) -> Iterator[tuple[str, object, object]]:
    """Yields each fact's name, its value in the catalogue, and its value in the data."""
    yield "samples to train on", entry.train, len(dataset.train)
    yield "samples to test with", entry.test, len(dataset.test)
    for part, samples in (("train", dataset.train), ("test", dataset.test)):
        yield f"shape of a sample to {part}", entry.input_shape, samples.inputs.shape[1:]
    for what in ("classes", "users", "items"):
        yield f"number of {what}", getattr(entry, what), getattr(dataset, what)
    if entry.class_counts:
        found = np.bincount(dataset.train.targets, minlength=entry.classes)
        yield "samples of each class", entry.class_counts, tuple(found.tolist())
