"""Stands in for a data set that is not here: of its sizes and shapes, with samples that are made up.

Takes an entry of the catalogue, gives a `DataSet`; touches nothing. For what depends on sizes alone, such as how
large a model is, how many samples a learner gets and how long a step takes: nothing can be learnt from it. Parts by
class are as large as those of the real one, since the catalogue knows how many samples a class has. Of users it knows
only how many there are, so that all of them have about the same number of samples here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.catalogue import CatalogueEntry
from testbed.node.data.catalogue_check import dataset_of
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.seeds import stream


def stand_in(entry: CatalogueEntry) -> DataSet:
    """What the catalogue says of the data set is true of this one, too; takes no more memory than a few samples."""
    make = _pictures if entry.kind is Kind.CLASSES else _ratings
    return dataset_of(entry, make(entry, entry.train), make(entry, entry.test))


def _pictures(entry: CatalogueEntry, count: int) -> Samples:
    """Each sample begins a byte after the one before it: random pixels for all of them are few."""
    values = int(np.prod(entry.input_shape))
    pixels = np.frombuffer(stream(0, "stand-in", entry.name).randbytes(count + values - 1), np.uint8)
    strides = (1, *np.empty(entry.input_shape, np.uint8).strides)
    inputs = np.lib.stride_tricks.as_strided(pixels, (count, *entry.input_shape), strides, writeable=False)
    counts = entry.class_counts if count == entry.train else _evenly(count, entry.classes)
    return Samples(inputs, _frozen(np.repeat(np.arange(entry.classes, dtype=np.int64), counts)))


def _ratings(entry: CatalogueEntry, count: int) -> Samples:
    users = np.repeat(np.arange(entry.users, dtype=np.int32), _evenly(count, entry.users))
    items = np.arange(count, dtype=np.int32) % entry.items
    ratings = 1.0 + np.arange(count, dtype=np.float32) % 5
    return Samples(_frozen(np.stack([users, items], axis=1)), _frozen(ratings), _frozen(users))


def _evenly(count: int, groups: int) -> NDArray[np.int64]:
    """How many of so many each group has, as far as they divide."""
    return np.diff(np.arange(groups + 1, dtype=np.int64) * count // groups)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
