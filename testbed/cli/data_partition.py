"""The partition that `testbed data partition` prints and draws.

Takes the name of a data set and how to divide it, gives the parts as a table, JSON, CSV or a picture; touches
the cache of data sets, and standard output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.cli.data_info import target_labels
from testbed.cli.data_picture import picture_of_shares
from testbed.cli.output import Cell, Format, print_csv, print_json, print_table
from testbed.node.data.dataset import DataSet, Kind
from testbed.node.data.load import load_dataset
from testbed.node.data.partition import histogram, partition, targets_of, test_parts
from testbed.topologies.drawing.png import png
from testbed.topologies.drawing.svg import svg

_MOST_COLUMNS = 12


@dataclass(frozen=True)
class Shares:
    """The parts of all learners."""

    dataset: DataSet
    kind: str
    options: Mapping[str, object]
    seed: int
    counts: NDArray[np.int64]
    """Samples by learner (rows) and class or rating (columns)."""
    tested: tuple[int, ...]
    users: tuple[int, ...] | None

    @property
    def noun(self) -> str:
        return "classes" if self.dataset.kind is Kind.CLASSES else "ratings"

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in self.counts.sum(axis=1)]

    @property
    def varieties(self) -> list[int]:
        """Number of classes or different ratings of each learner."""
        return [int(count) for count in (self.counts > 0).sum(axis=1)]

    @property
    def words(self) -> str:
        """A summary in one line."""
        learners, sizes = len(self.counts), self.sizes
        spread = Counter(self.varieties)
        kinds = ", ".join(f"{spread[count]} with {count}" for count in sorted(spread))
        between = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
        return f"{learners} learners with {between} samples each; by number of {self.noun}: {kinds}"


def divide(
    name: str,
    settings: Mapping[str, object],
    learners: int,
    kind: str,
    options: Mapping[str, object],
    seed: int,
    tell: Callable[[str], None],
) -> Shares:
    """Loads (or fetches) a data set and divides it."""
    dataset = load_dataset(name, settings, seed, tell=tell)
    parts = partition(dataset, learners, kind, options, seed)
    groups = dataset.train.groups
    return Shares(
        dataset=dataset,
        kind=kind,
        options=options,
        seed=seed,
        counts=histogram(dataset, parts),
        tested=tuple(len(part) for part in test_parts(dataset, parts)),
        users=None if groups is None else tuple(len(np.unique(groups[part])) for part in parts),
    )


def print_shares(shares: Shares, output_format: Format) -> None:
    if output_format is Format.JSON:
        print_json(_as_json(shares))
        return
    columns: list[str] = ["learner", "samples", "test_samples", shares.noun]
    if shares.users is not None:
        columns.append("users")
    labels = [f"{target:g}" for target in targets_of(shares.dataset).tolist()]
    show_all = output_format is Format.CSV or len(labels) <= _MOST_COLUMNS
    if show_all:
        columns += [f"{'class' if shares.noun == 'classes' else 'rating'}_{label}" for label in labels]
    rows: list[list[Cell]] = []
    for rank, counts in enumerate(shares.counts.tolist()):
        row: list[Cell] = [rank, shares.sizes[rank], shares.tested[rank], shares.varieties[rank]]
        if shares.users is not None:
            row.append(shares.users[rank])
        rows.append(row + (counts if show_all else []))
    if output_format is Format.CSV:
        print_csv(columns, rows)
    else:
        print_table([column.replace("_", " ") for column in columns], rows)


def _as_json(shares: Shares) -> dict[str, object]:
    return {
        "data": shares.dataset.name,
        "partition": {"kind": shares.kind, **shares.options},
        "seed": shares.seed,
        "targets": target_labels(shares.dataset),
        "learners": [
            {
                "learner": rank,
                "samples": shares.sizes[rank],
                "test_samples": shares.tested[rank],
                shares.noun: shares.varieties[rank],
                "users": None if shares.users is None else shares.users[rank],
                "counts": counts,
            }
            for rank, counts in enumerate(shares.counts.tolist())
        ],
    }


def draw_shares(shares: Shares, ending: str) -> bytes | str:
    """The picture as a file with this ending: .svg or .png."""
    options = ", ".join(f"{name} {value}" for name, value in shares.options.items())
    how = f"{shares.kind} ({options})" if options else shares.kind
    picture = picture_of_shares(
        title=f"{shares.dataset.name} among {len(shares.counts)} learners: {how}, seed {shares.seed}",
        description=shares.words,
        labels=target_labels(shares.dataset),
        counts=shares.counts.tolist(),
    )
    return png(picture) if ending == ".png" else svg(picture)
