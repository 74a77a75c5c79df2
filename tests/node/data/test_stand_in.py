"""What a plan knows of a data set that is not here is what the data set says once it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.array_utils import byte_bounds

from testbed.experiment.language import Experiment
from testbed.node.data import load, store
from testbed.node.data.catalogue import ENTRIES, CatalogueEntry
from testbed.node.data.catalogue_check import check_facts, dataset_of
from testbed.node.data.dataset import DataSet, Samples
from testbed.node.data.digits import load_digits
from testbed.node.data.experiment_data import PartitionedData, is_at_hand, partition_data
from testbed.node.data.load import load_dataset
from testbed.node.data.partition import partition
from testbed.node.data.problems import Impossible
from testbed.node.data.stand_in import stand_in

FETCHED = [name for name, entry in ENTRIES.items() if entry.needs_download]
OF_CLASSES = [name for name in FETCHED if ENTRIES[name].classes]


def not_here(learners: int, cache: Path, **data: Any) -> PartitionedData:
    experiment = Experiment.model_validate({"topology": "t", "data": data})
    return partition_data(experiment, learners, 1, cache=cache, fetch=False)


def in_another_order(dataset: DataSet) -> DataSet:
    """As many samples of each class, as a real data set has them: mixed."""
    mixed = np.random.default_rng(5).permutation(dataset.train.targets)
    return replace(dataset, train=Samples(dataset.train.inputs, mixed))


@pytest.mark.parametrize("name", ENTRIES)
def test_the_catalogue_is_right_about_data_that_is_here(name: str) -> None:
    if not is_at_hand(name):
        pytest.skip(f"{name} is not in the cache")
    assert check_facts(ENTRIES[name], load_dataset(name, {}, 1)).name == name


def test_the_catalogue_counts_the_samples_of_each_class() -> None:
    """Unlike those of MNIST, the others' classes are of one size; all add up."""
    for name in OF_CLASSES:
        entry = ENTRIES[name]
        assert len(entry.class_counts) == entry.classes
        assert sum(entry.class_counts) == entry.train
        assert (len(set(entry.class_counts)) == 1) == (name != "mnist")


@pytest.mark.parametrize("name", FETCHED)
def test_a_stand_in_is_all_that_the_catalogue_says(name: str) -> None:
    entry = ENTRIES[name]
    made = stand_in(entry)
    for samples, count in ((made.train, entry.train), (made.test, entry.test)):
        assert samples.inputs.shape == (count, *entry.input_shape)
        assert not samples.inputs.flags.writeable
        first, last = byte_bounds(samples.inputs)
        assert last - first < 1_000_000
    one, other = made.batch(made.train, np.array([0, 1]))
    assert (one.shape, one.tolist() == other.tolist()) == (entry.input_shape, False)
    if entry.users:
        assert made.train.groups is not None
        assert len(np.unique(made.train.groups)) == entry.users
        assert int(made.train.inputs[:, 1].max()) + 1 == entry.items


@pytest.mark.parametrize("name", OF_CLASSES)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("iid", {}),
        ("shards", {"per_node": 3}),
        ("shards", {"variant": "decpy"}),
        ("dirichlet", {"alpha": 0.1}),
        ("dirichlet", {"alpha": 1.0, "min": 20}),
    ],
)
def test_parts_are_as_large_as_those_of_the_data_itself(name: str, kind: str, options: dict[str, object]) -> None:
    """It depends on the numbers of samples, by class, and not on where in the data set they are."""
    made = stand_in(ENTRIES[name])
    sizes = [[len(part) for part in partition(each, 37, kind, options, 1)] for each in (made, in_another_order(made))]
    assert sizes[0] == sizes[1]
    assert sum(sizes[0]) == ENTRIES[name].train


@pytest.mark.parametrize(
    ("data", "estimated"),
    [
        ({"name": "mnist"}, False),
        ({"name": "cifar10", "partition": {"kind": "dirichlet"}}, False),
        ({"name": "movielens", "partition": "iid"}, False),
        ({"name": "movielens"}, True),
    ],
)
def test_only_what_depends_on_users_is_an_estimate(data: dict[str, Any], estimated: bool, tmp_path: Path) -> None:
    found = not_here(40, tmp_path / "empty", **data)
    assert sum(found.sizes) == ENTRIES[data["name"]].train
    assert found.is_estimated == estimated
    assert max(found.sizes) < 2 * min(found.sizes) or not estimated
    assert not (tmp_path / "empty").exists()


def test_what_is_made_on_the_spot_needs_no_stand_in(tmp_path: Path) -> None:
    found = not_here(8, tmp_path, name="synthetic", samples=400, users=8, partition="user")
    assert (len(found.dataset.train), found.is_estimated) == (320, False)


def test_a_partition_that_cannot_be_is_refused_before_the_data_is_here(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="does not say which user a sample is of"):
        not_here(4, tmp_path, name="mnist", partition="user")
    with pytest.raises(Impossible, match="has 943 users with samples to train on, too few for 944 learners"):
        not_here(944, tmp_path, name="movielens")


DIGITS = ENTRIES["digits"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (replace(DIGITS, train=1400), "samples to test with: expected 297, got 397"),
        (replace(DIGITS, input_shape=(1, 4, 16), test=200), "samples to test with: expected 200, got 297"),
        (replace(DIGITS, class_counts=(150,) * 10), r"samples of each class: expected \(150, 150"),
    ],
)
def test_data_that_is_not_what_the_catalogue_says_is_refused(entry: CatalogueEntry, words: str) -> None:
    with pytest.raises(Impossible, match=f"the data set digits is damaged: {words}"):
        load_digits(entry)


def test_a_facts_mistake_names_its_value() -> None:
    digits = load_dataset("digits", {}, 1)
    other = replace(DIGITS, input_shape=(8, 8))
    with pytest.raises(Impossible, match=r"shape of a sample to train: expected \(8, 8\), got \(1, 8, 8\)"):
        dataset_of(other, digits.train, digits.test)
    for what in ("classes", "users", "items"):
        said: dict[str, Any] = {what: 10}
        found: dict[str, Any] = {what: 5}
        with pytest.raises(Impossible, match=f"number of {what}: expected 10, got 5"):
            check_facts(replace(DIGITS, **said), replace(digits, **found))


@pytest.mark.parametrize("name", ["mnist", "movielens"])
def test_the_loader_checks_what_is_in_the_cache(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of another version of the data set, say, whose files are as large."""
    made = stand_in(ENTRIES["mnist"])
    arrays = {
        "train_inputs": made.train.inputs,
        "train_targets": np.roll(made.train.targets, 1) // 2,
        "test_inputs": made.test.inputs,
        "test_targets": made.test.targets,
        "pairs": np.zeros((100_000, 2), np.int32),
        "ratings": np.ones(100_000, np.float32),
    }
    monkeypatch.setattr(load, "ensure", lambda *_arguments, **_how: tmp_path)
    monkeypatch.setattr(store, "read", lambda *_arguments: arrays)
    with pytest.raises(Impossible, match=f"the data set {name} is damaged") as caught:
        load_dataset(name, {}, 1)
    assert caught.value.hint == f"`testbed data fetch {name}` checks what is there"
