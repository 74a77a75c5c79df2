"""The data sets that come with the package: what an experiment must know of each.

Pure. What a data set consists of, and where it can be had, is in `node/data/catalogue.py`, which loads arrays' readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.catalogue.models import DEFAULT_MODEL
from testbed.catalogue.options import Option, Type
from testbed.catalogue.tables import by_name

PartitionKind = Literal["iid", "shards", "dirichlet", "user"]


@dataclass(frozen=True)
class DataSetFacts:
    """One data set."""

    name: str
    code: str
    """The function that opens or makes it (`node/data/load.Loader`)."""
    summary: str
    options: tuple[Option, ...]
    is_fetched: bool
    """It is downloaded once and kept; otherwise it is installed already, or made from the seed."""
    model: str
    """What learns it where an experiment names no model."""
    partition: PartitionKind
    """How it is divided where an experiment says nothing."""


_PACKAGE = "testbed.node.data"
_PICTURES = (
    Option(
        "normalise",
        ("channel", "half", "none"),
        "channel",
        "Each colour with mean 0 and variance 1, values from -1 to 1, or from 0 to 1.",
    ),
)

DEFAULT_DATA = "fashion-mnist"
DEFAULT_PARTITION: PartitionKind = "shards"
"""Of data sets that name no other, and of researchers' own."""
DATA_SETS = by_name(
    DataSetFacts(
        name="fashion-mnist",
        code=f"{_PACKAGE}.load:load_pictures",
        summary="Zalando's pictures of clothes, 10 classes",
        options=_PICTURES,
        is_fetched=True,
        model=DEFAULT_MODEL,
        partition=DEFAULT_PARTITION,
    ),
    DataSetFacts(
        name="mnist",
        code=f"{_PACKAGE}.load:load_pictures",
        summary="handwritten digits, 10 classes",
        options=_PICTURES,
        is_fetched=True,
        model=DEFAULT_MODEL,
        partition=DEFAULT_PARTITION,
    ),
    DataSetFacts(
        name="cifar10",
        code=f"{_PACKAGE}.load:load_pictures",
        summary="small colour pictures of animals and vehicles, 10 classes",
        options=_PICTURES,
        is_fetched=True,
        model=DEFAULT_MODEL,
        partition=DEFAULT_PARTITION,
    ),
    DataSetFacts(
        name="digits",
        code=f"{_PACKAGE}.load:load_installed_pictures",
        summary="handwritten digits of 8×8 pixels, 10 classes; comes with scikit-learn",
        options=_PICTURES,
        is_fetched=False,
        model="mlp",
        partition=DEFAULT_PARTITION,
    ),
    DataSetFacts(
        name="movielens",
        code=f"{_PACKAGE}.load:load_ratings",
        summary="MovieLens-100K: what users think of films; 70 % of each user's ratings to train, 30 % to test",
        options=(
            Option("path", Type.NAME, None, "A ratings.csv of the newer MovieLens sets instead of the 100K set."),
        ),
        is_fetched=True,
        model="mf",
        partition="user",
    ),
    DataSetFacts(
        name="synthetic",
        code=f"{_PACKAGE}.load:load_synthetic",
        summary="made from the seed: users whose linear classifiers are alike or not, after LEAF's synthetic data set",
        options=(
            Option("samples", Type.POSITIVE, 10_000, "To train and to test together."),
            Option("users", Type.POSITIVE, 100, "Each has a linear classifier of its own."),
            Option("classes", Type.POSITIVE, 10, "Classes."),
            Option("features", Type.POSITIVE, 60, "Numbers that an input has."),
            Option("clusters", Type.POSITIVE, 1, "Groups of users that are alike."),
            Option("spread", Type.AMOUNT, 0.3, "How much the users of a group differ."),
        ),
        is_fetched=False,
        model="logistic",
        partition=DEFAULT_PARTITION,
    ),
)
