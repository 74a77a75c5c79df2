"""The data sets that need no download, ratings from a file, data of one's own, and batches."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.errors import ExitCode
from testbed.node.data.catalogue import ENTRIES
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.data.draws import normals, permutation
from testbed.node.data.load import load_dataset
from testbed.node.data.problems import Impossible
from testbed.seeds import stream


def digest(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def test_digits_are_split_the_same_for_every_seed() -> None:
    one, other = load_dataset("digits", {}, 1), load_dataset("digits", {}, 2)
    assert (len(one.train), len(one.test)) == (1500, 297)
    np.testing.assert_array_equal(one.train.inputs, other.train.inputs)
    assert one.train.inputs.shape == (1500, 1, 8, 8)
    assert one.train.inputs.dtype == np.uint8
    assert one.train.inputs.max() == 16
    assert np.bincount(one.train.targets).min() > 130
    assert np.bincount(one.test.targets).min() > 20
    assert digest(one.train.inputs, one.train.targets) == "f959db7f7535bd08"


@pytest.mark.processes
def test_digits_are_those_of_scikit_learn() -> None:
    script = """
import numpy as np
from sklearn.datasets import load_digits
from testbed.node.data.load import load_dataset
theirs, ours = load_digits(), load_dataset("digits", {}, 1)
rows = [(*image.ravel().astype(int), int(label)) for image, label in zip(theirs.images, theirs.target)]
mine = [(*image.ravel().astype(int), int(label)) for part in (ours.train, ours.test)
        for image, label in zip(part.inputs, part.targets)]
assert sorted(rows) == sorted(mine)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.processes
def test_digits_are_loaded_without_importing_scikit_learn() -> None:
    script = "import sys; from testbed.node.data.load import load_dataset as l; l('digits', {}, 1)\n"
    script += "assert not {'sklearn', 'torch', 'matplotlib', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_batch_is_scaled_and_normalised() -> None:
    dataset = load_dataset("digits", {}, 1)
    everything = dataset.batch(dataset.train, np.arange(1500))
    assert everything.dtype == np.float32
    assert everything.mean() == pytest.approx(0, abs=2e-3)
    assert everything.std() == pytest.approx(1, abs=2e-3)
    chosen = np.array([5, 3, 5])
    expected = (dataset.train.inputs[chosen] / 16 - dataset.mean[0]) / dataset.std[0]
    np.testing.assert_allclose(dataset.batch(dataset.train, chosen), expected, atol=1e-6)


def test_colours_are_normalised_each_by_its_own() -> None:
    inputs = np.random.default_rng(1).integers(0, 256, (50, 3, 4, 4), np.uint8)
    samples = Samples(inputs, np.zeros(50, np.int64))
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    dataset = DataSet("c", Kind.CLASSES, 2, (3, 4, 4), 0, 0, samples, samples, mean, std, 1 / 255)
    found = dataset.batch(samples, np.arange(50))
    for channel in range(3):
        expected = (inputs[:, channel] / 255 - mean[channel]) / std[channel]
        np.testing.assert_allclose(found[:, channel], expected, atol=1e-6)


@pytest.mark.parametrize(("how", "low", "high"), [("half", -1.0, 1.0), ("none", 0.0, 1.0)])
def test_other_ways_to_normalise(how: str, low: float, high: float) -> None:
    dataset = load_dataset("digits", {"normalise": how}, 1)
    everything = dataset.batch(dataset.train, np.arange(1500))
    assert (everything.min(), everything.max()) == (low, high)


def test_features_and_pairs_pass_through_a_batch() -> None:
    synthetic = load_dataset("synthetic", {}, 1)
    np.testing.assert_array_equal(synthetic.batch(synthetic.train, np.arange(9)), synthetic.train.inputs[:9])
    pairs = np.array([[1, 2], [0, 3]], np.int32)
    samples = Samples(pairs, np.ones(2, np.float32), pairs[:, 0])
    ratings = DataSet("r", Kind.RATINGS, 0, (2,), 2, 4, samples, samples)
    batch = ratings.batch(samples, np.array([1, 0]))
    assert batch.dtype == np.int64
    assert batch.tolist() == [[0, 3], [1, 2]]


def test_synthetic_is_the_same_on_every_machine() -> None:
    """Golden: must never change for a seed, whatever the versions of Python and numpy."""
    options = {"samples": 600, "users": 12, "classes": 5, "features": 8, "clusters": 2}
    one = load_dataset("synthetic", options, 3)
    assert digest(one.train.inputs, one.train.targets, one.test.inputs) == "e945bc97606f9d3d"
    assert digest(load_dataset("synthetic", options, 4).train.inputs) != digest(one.train.inputs)


def test_synthetic_has_what_was_asked_for() -> None:
    dataset = load_dataset("synthetic", {"samples": 1000, "users": 20, "classes": 4, "features": 7}, 1)
    assert (len(dataset.train), len(dataset.test)) == (800, 200)
    assert dataset.input_shape == (7,)
    assert dataset.train.groups is not None
    assert dataset.test.groups is not None
    assert np.bincount(dataset.train.groups).tolist() == [40] * 20
    assert np.bincount(dataset.test.groups).tolist() == [10] * 20
    assert set(np.unique(dataset.train.targets)) <= set(range(4))
    assert not dataset.train.inputs.flags.writeable
    assert (np.diff(dataset.train.groups) != 0).mean() > 0.8, "samples are mixed"


def linear_accuracy(dataset: DataSet) -> float:
    """Of least squares on one column per class: a crude linear classifier."""
    ones = [np.c_[part.inputs, np.ones(len(part))] for part in (dataset.train, dataset.test)]
    weights, *_ = np.linalg.lstsq(ones[0], np.eye(dataset.classes)[dataset.train.targets], rcond=None)
    return float(((ones[1] @ weights).argmax(axis=1) == dataset.test.targets).mean())


def test_synthetic_can_be_learnt_and_spread_makes_it_harder() -> None:
    alike, usual, apart = (linear_accuracy(load_dataset("synthetic", {"spread": spread}, 1)) for spread in (0, 0.3, 1))
    assert alike > 0.68
    assert apart + 0.1 < usual < alike - 0.03


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 5},
        {"users": 0},
        {"classes": 1},
        {"spread": -1},
        {"sample": 100},
        {"samples": 100, "users": 60},
        {"samples": 2_000_000, "features": 10_000},
    ],
)
def test_bad_options_of_synthetic(options: dict[str, object]) -> None:
    with pytest.raises(Impossible, match=r"synthetic|too few for"):
        load_dataset("synthetic", options, 1)


def test_draws_are_fair() -> None:
    found = normals(stream(1, "a"), 200, 500)
    assert abs(found.mean()) < 0.01
    assert found.std() == pytest.approx(1, abs=0.01)
    assert (np.abs(found) < 1).mean() == pytest.approx(0.683, abs=0.01)
    assert sorted(permutation(stream(1, "b"), 50).tolist()) == list(range(50))
    first = [int(permutation(stream(seed, "c"), 4)[0]) for seed in range(400)]
    assert all(70 < first.count(value) < 130 for value in range(4))


CSV = "userId,movieId,rating,timestamp\n" + "".join(
    f"{user * 10},{movie * 100},{0.5 + (user + movie) % 9 * 0.5},{1000 + movie}\n"
    for user in (3, 1, 2)
    for movie in range(1, 11 if user != 2 else 2)
)


def test_the_newer_movielens_format(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(CSV)
    dataset = load_dataset("movielens", {"path": str(file)}, 1)
    assert (dataset.users, dataset.items, dataset.kind) == (3, 10, Kind.RATINGS)
    assert dataset.train.groups is not None
    assert np.bincount(dataset.train.groups).tolist() == [7, 1, 7]
    pairs = np.concatenate([dataset.train.inputs, dataset.test.inputs])
    values = np.concatenate([dataset.train.targets, dataset.test.targets])
    expected = {(user - 1, movie - 1): 0.5 + (user + movie) % 9 * 0.5 for user in (1, 3) for movie in range(1, 11)}
    expected[1, 0] = 0.5 + 3 * 0.5
    assert {(int(user), int(item)): float(value) for (user, item), value in zip(pairs, values, strict=True)} == expected
    again = load_dataset("movielens", {"path": str(file)}, 1)
    other = load_dataset("movielens", {"path": str(file)}, 2)
    np.testing.assert_array_equal(again.train.inputs, dataset.train.inputs)
    assert not np.array_equal(other.train.inputs, dataset.train.inputs)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no ratings"),
        ("userId,movieId,rating,timestamp\n", "has no ratings"),
        ("user,item,rating\n1,2,3\n", ":1: the first line"),
        ("userId,movieId,rating,timestamp\n1,2,3,4\n1,x,3,4\n", ":3: expected"),
        ("userId,movieId,rating,timestamp\n1,2\n", ":2: expected"),
        ("userId,movieId,rating,timestamp\n1,2,nan,4\n", ":2: a number is out of range"),
        ("userId,movieId,rating,timestamp\n1,-2,1,4\n", ":2: a number is out of range"),
        ("userId,movieId,rating,timestamp\n1,2,1,4\n1,2,5,9\n", ":3: user 1 rates item 2 a second time"),
    ],
)
def test_bad_files_of_ratings_are_told_by_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(text)
    with pytest.raises(Impossible, match=words) as caught:
        load_dataset("movielens", {"path": str(file)}, 1)
    assert caught.value.exit_code == ExitCode.INVALID_INPUT


def test_a_missing_or_binary_file_of_ratings(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="cannot read"):
        load_dataset("movielens", {"path": str(tmp_path / "none.csv")}, 1)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00user")
    with pytest.raises(Impossible, match="not a CSV file"):
        load_dataset("movielens", {"path": str(tmp_path / "binary.csv")}, 1)


OWN = """
import numpy as np
from testbed.node.data.dataset import DataSet, Kind, Samples

def two_moons(seed, samples=40):
    inputs = np.random.default_rng(seed).normal(size=(samples, 2)).astype(np.float32)
    part = Samples(inputs, (inputs[:, 0] > 0).astype(np.int64))
    return DataSet("moons", Kind.CLASSES, 2, (2,), 0, 0, part, part)

def broken(seed):
    return 1 / 0

def nothing(seed):
    return None

constant = 5
"""


def test_data_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    dataset = load_dataset(f"{file}:two_moons", {"samples": 30}, 5)
    assert len(dataset.train) == 30
    for name, words in {
        "broken": "own.py:11: division by zero",
        "nothing": "returned NoneType, not a DataSet",
        "constant": "not a function",
        "two_moon": "did you mean `two_moons`",
    }.items():
        with pytest.raises(Impossible, match=words):
            load_dataset(f"{file}:{name}", {}, 5)
    with pytest.raises(Impossible, match="unexpected keyword"):
        load_dataset(f"{file}:two_moons", {"sample": 3}, 5)


GOOD = Samples(np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1]))
OWN_SET = DataSet("own", Kind.CLASSES, 2, (2,), 0, 0, GOOD, GOOD)
EMPTY = Samples(np.zeros((0, 2), np.float32), np.zeros(0, np.int64))
BAD_SETS = {
    "class out of range": replace(OWN_SET, train=replace(GOOD, targets=np.array([0, 1, 2, 0]))),
    "negative class": replace(OWN_SET, test=replace(GOOD, targets=np.array([0, -1, 1, 0]))),
    "float targets": replace(OWN_SET, train=replace(GOOD, targets=np.zeros(4))),
    "double inputs": replace(OWN_SET, train=replace(GOOD, inputs=np.zeros((4, 2)))),
    "other shape": replace(OWN_SET, input_shape=(3,)),
    "lengths": replace(OWN_SET, train=replace(GOOD, inputs=np.zeros((3, 2), np.float32))),
    "groups": replace(OWN_SET, train=replace(GOOD, groups=np.zeros(3, np.int32))),
    "one class": replace(OWN_SET, classes=1),
    "std": replace(OWN_SET, std=(0.0,)),
    "mean": replace(OWN_SET, mean=(0.0, 1.0, 2.0)),
    "nan": replace(OWN_SET, train=replace(GOOD, inputs=np.full((4, 2), np.nan, np.float32))),
    "nothing to train on": replace(OWN_SET, train=EMPTY),
}


@pytest.mark.parametrize("bad", BAD_SETS.values(), ids=BAD_SETS)
def test_ones_own_data_is_checked(monkeypatch: pytest.MonkeyPatch, bad: DataSet) -> None:
    import tests.node.data as here

    monkeypatch.setattr(here, "made", lambda **_: bad, raising=False)
    with pytest.raises(Impossible, match=r"tests\.node\.data:made: "):
        load_dataset("tests.node.data:made", {}, 1)
    monkeypatch.setattr(here, "made", lambda **_: replace(OWN_SET, test=EMPTY))
    assert load_dataset("tests.node.data:made", {}, 1).classes == 2


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(Impossible) as caught:
        load_dataset("cifar-10", {}, 1)
    assert caught.value.hint == "did you mean `cifar10`?"


def test_the_catalogue_is_consistent() -> None:
    for name, entry in ENTRIES.items():
        assert entry.name == name
        assert entry.terms
        assert len(entry.mean) == len(entry.std)
        assert not entry.class_names or len(entry.class_names) == entry.classes
    for name in ("digits", "synthetic"):
        dataset, entry = load_dataset(name, {}, 1), ENTRIES[name]
        assert (len(dataset.train), len(dataset.test)) == (entry.train, entry.test)
        assert (dataset.users, dataset.classes, dataset.input_shape) == (entry.users, entry.classes, entry.input_shape)
