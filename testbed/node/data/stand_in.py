"""Stand-in for a data set that is not here: the same sizes and shapes, with made-up samples.

Takes an entry of the catalogue, gives a `DataSet`; touches nothing. For questions of size only, such as how large a
model is, how many samples a learner gets and how long a step takes: nothing can be learnt from it. Parts by class are
as large as the real ones, since the catalogue has the number of samples of each class. It has only the total number of
users, so here all users have about the same number of samples.
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
    """A data set that agrees with the catalogue and takes no more memory than a few samples."""
    make = _pictures if entry.kind is Kind.CLASSES else _ratings
    return dataset_of(entry, make(entry, entry.train), make(entry, entry.test))


def _pictures(entry: CatalogueEntry, count: int) -> Samples:
    """Overlapping samples: each begins one byte after the previous one, so few random pixels are needed."""
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
    """Divides a count into groups as evenly as possible."""
    return np.diff(np.arange(groups + 1, dtype=np.int64) * count // groups)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
