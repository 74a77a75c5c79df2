"""Loads the digits that come with scikit-learn: real handwriting without a download.

Takes nothing, gives a data set; touches scikit-learn's installed files.
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.catalogue import CatalogueEntry
from testbed.node.data.catalogue_check import dataset_of
from testbed.node.data.dataset import DataSet, Samples
from testbed.node.data.draws import permutation
from testbed.node.data.problems import NoSource
from testbed.seeds import stream


def load_digits(entry: CatalogueEntry) -> DataSet:
    """The same 1500 digits to train on and 297 to test with for every seed; the order of writers is shuffled first."""
    pixels, targets = _table()
    order = permutation(stream(0, entry.name, "split"), len(targets))
    parts = []
    for chosen in (order[: entry.train], order[entry.train :]):
        inputs = np.ascontiguousarray(pixels[chosen].reshape(-1, *entry.input_shape))
        labels = targets[chosen]
        inputs.flags.writeable = labels.flags.writeable = False
        parts.append(Samples(inputs, labels))
    return dataset_of(entry, parts[0], parts[1])


def _table() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Reads the file itself: importing scikit-learn takes a second, and 60 MB in every learner."""
    found = find_spec("sklearn")
    if found is None:
        raise NoSource(
            "the data set digits comes with scikit-learn, which is not installed", "pip install scikit-learn"
        )
    for folder in found.submodule_search_locations or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            with gzip.open(file, "rt") as rows:
                table = np.loadtxt(rows, delimiter=",", dtype=np.int64)
            return table[:, :-1].astype(np.uint8), table[:, -1].copy()
    from sklearn import datasets  # type: ignore[import-untyped]  # the file is elsewhere: scikit-learn knows where

    bunch = datasets.load_digits()
    return bunch.data.astype(np.uint8), bunch.target.astype(np.int64)
