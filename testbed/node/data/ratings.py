"""Ratings of items by users: the stored MovieLens-100K, or a file in the format of newer MovieLens sets.

Takes pairs and ratings, or a CSV file, gives a data set; touches the given file. Of every user's ratings 70 %, at
least one, are to train on and the rest to test with; which ones depends only on the seed.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.data.draws import permutation
from testbed.node.data.problems import Impossible
from testbed.seeds import stream

COLUMNS = ("userId", "movieId", "rating", "timestamp")
_MOST_RATINGS = 30_000_000
_MOST_ID = 2**31 - 1


def split_ratings(name: str, pairs: NDArray[np.int32], ratings: NDArray[np.float32], seed: int) -> DataSet:
    """Splits ratings into a data set; users and items must be numbered from 0 without gaps."""
    users = int(pairs[:, 0].max()) + 1
    items = int(pairs[:, 1].max()) + 1
    is_train = _split(pairs[:, 0], users, seed)
    train, test = (_samples(pairs, ratings, np.flatnonzero(chosen)) for chosen in (is_train, ~is_train))
    return DataSet(
        name=name,
        kind=Kind.RATINGS,
        classes=0,
        input_shape=(2,),
        users=users,
        items=items,
        train=train,
        test=test,
    )


def _split(owners: NDArray[np.int32], users: int, seed: int) -> NDArray[np.bool_]:
    """Selects 70 % of each user's ratings, rounded, at least one."""
    mixed = permutation(stream(seed, "ratings", "split"), len(owners))
    by_user = mixed[np.argsort(owners[mixed], kind="stable")]
    counts = np.bincount(owners, minlength=users)
    rank = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_train = np.zeros(len(owners), np.bool_)
    is_train[by_user] = rank < np.repeat(np.maximum(1, (7 * counts + 5) // 10), counts)
    return is_train


def _samples(pairs: NDArray[np.int32], ratings: NDArray[np.float32], chosen: NDArray[np.intp]) -> Samples:
    inputs, targets = pairs[chosen], ratings[chosen]
    groups = inputs[:, 0].copy()
    for array in (inputs, targets, groups):
        array.flags.writeable = False
    return Samples(inputs, targets, groups)


def read_ratings(path: Path) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Reads `ratings.csv` of a newer MovieLens set; users and items are renumbered without gaps, in order."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            users, items, ratings = _columns(path, csv.reader(file))
    except OSError as problem:
        raise Impossible(f"cannot read {path}: {problem.strerror or problem}") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise Impossible(f"{path} is not a CSV file: {problem}") from None
    pairs = np.stack([np.unique(column, return_inverse=True)[1] for column in (users, items)], axis=1)
    return pairs.astype(np.int32), ratings


def _columns(path: Path, rows: Iterable[list[str]]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    table: list[tuple[int, int, float]] = []
    seen: set[tuple[int, int]] = set()
    for number, row in enumerate(rows, start=1):
        if number == 1:
            if tuple(row[:3]) != COLUMNS[:3]:
                _bad(path, number, f"the first line must be {','.join(COLUMNS)}")
            continue
        if not row:
            continue
        if len(table) == _MOST_RATINGS:
            _bad(path, number, f"more than {_MOST_RATINGS} ratings")
        try:
            user, item, rating = int(row[0]), int(row[1]), float(row[2])
        except (ValueError, IndexError):
            _bad(path, number, "expected two whole numbers and a rating")
        if not (0 <= user <= _MOST_ID and 0 <= item <= _MOST_ID and math.isfinite(rating) and abs(rating) < 1e6):
            _bad(path, number, "a number is out of range")
        if (user, item) in seen:
            _bad(path, number, f"user {user} rates item {item} a second time")
        seen.add((user, item))
        table.append((user, item, rating))
    if not table:
        raise Impossible(f"{path} has no ratings")
    users, items, ratings = zip(*table, strict=True)
    return np.asarray(users, np.int64), np.asarray(items, np.int64), np.asarray(ratings, np.float32)


def _bad(path: Path, line: int, what: str) -> NoReturn:
    raise Impossible(f"{path}:{line}: {what}")
