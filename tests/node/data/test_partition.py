"""Partitions: disjoint, covering, the same everywhere, and as uneven as they should be."""

from __future__ import annotations

import hashlib
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import ExitCode
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.data.partition import KINDS, Part, histogram, partition, targets_of, test_parts
from testbed.node.data.problems import Impossible
from testbed.node.data.ratings import split_ratings
from tests.examples import examples


def toy(count: int, classes: int = 10, users: int = 0) -> DataSet:
    """Classes and users in turn, as many samples of each."""
    targets = np.arange(count, dtype=np.int64) % classes
    groups = (np.arange(count) * 7 % users).astype(np.int32) if users else None
    samples = Samples(np.zeros((count, 1), np.float32), targets, groups)
    test = Samples(np.zeros((5, 1), np.float32), np.zeros(5, np.int64), None)
    return DataSet("toy", Kind.CLASSES, classes, (1,), users, 0, samples, test)


def ratings(users: int, items: int = 6) -> DataSet:
    pairs = np.array([(user, item) for item in range(items) for user in range(users)], np.int32)
    values = (1 + (pairs.sum(axis=1) % 5)).astype(np.float32)
    is_test = pairs[:, 1] % 3 == 0
    train, test = (Samples(pairs[chosen], values[chosen], pairs[chosen, 0]) for chosen in (~is_test, is_test))
    return DataSet("toy-ratings", Kind.RATINGS, 0, (2,), users, items, train, test)


CASES: dict[str, tuple[str, dict[str, object]]] = {
    "iid": ("iid", {}),
    "grid": ("shards", {}),
    "grid-3": ("shards", {"per_node": 3}),
    "decpy": ("shards", {"variant": "decpy"}),
    "dirichlet-0.1": ("dirichlet", {"alpha": 0.1}),
    "dirichlet-10": ("dirichlet", {"alpha": 10}),
    "user": ("user", {}),
    "user-contiguous": ("user", {"order": "contiguous"}),
}


def assert_disjoint_and_covering(parts: list[Part], count: int) -> None:
    together = np.concatenate(parts)
    assert len(together) == count
    assert np.array_equal(np.sort(together), np.arange(count))
    assert all(len(part) and (np.diff(part) > 0).all() for part in parts)
    assert all(part.dtype == np.int64 for part in parts)


@pytest.mark.parametrize(("kind", "options"), CASES.values(), ids=CASES)
@settings(max_examples=examples(25), deadline=None)
@given(
    count=st.integers(60, 700),
    learners=st.integers(1, 20),
    classes=st.integers(2, 12),
    seed=st.integers(-(2**40), 2**40),
)
def test_every_sample_goes_to_exactly_one_learner(
    kind: str, options: dict[str, object], count: int, learners: int, classes: int, seed: int
) -> None:
    dataset = toy(count, classes, users=20)
    parts = partition(dataset, learners, kind, options, seed)
    assert len(parts) == learners
    assert_disjoint_and_covering(parts, count)
    again = partition(dataset, learners, kind, options, seed)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


GOLDEN = {
    "iid": "721d7616384dd629",
    "grid": "432b04dc703f29fe",
    "grid-3": "0595f7a20798c261",
    "decpy": "3055af88bda42882",
    "dirichlet-0.1": "6de1bc2b97ebfb2c",
    "dirichlet-10": "f290f6b0f386fb66",
    "user": "62e014fc82edb7c0",
    "user-contiguous": "4ec6bbb73994a993",
}


def fingerprint(parts: list[Part]) -> str:
    text = ";".join(",".join(map(str, part.tolist())) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("case", CASES)
def test_the_parts_are_the_same_on_every_machine(case: str) -> None:
    """Golden: these must never change for a seed, whatever the versions of Python and numpy."""
    kind, options = CASES[case]
    assert fingerprint(partition(toy(3000, users=40), 16, kind, options, 7)) == GOLDEN[case]


@pytest.mark.parametrize("case", [case for case in CASES if case != "user-contiguous"])
def test_another_seed_gives_other_parts(case: str) -> None:
    kind, options = CASES[case]
    dataset = toy(3000, users=40)
    assert fingerprint(partition(dataset, 16, kind, options, 7)) != fingerprint(
        partition(dataset, 16, kind, options, 8)
    )


def test_iid_gives_everybody_as_much_of_everything() -> None:
    dataset = toy(10_000)
    counts = histogram(dataset, partition(dataset, 10, "iid", {}, 1))
    assert set(counts.sum(axis=1)) == {1000}
    assert counts.min() > 60
    assert counts.max() < 145


def test_iid_sizes_differ_by_at_most_one() -> None:
    sizes = {len(part) for part in partition(toy(1003), 16, "iid", {}, 1)}
    assert sizes == {62, 63}


def test_grid_shards_are_equal_runs_of_the_sorted_samples() -> None:
    dataset = toy(2000)
    parts = partition(dataset, 10, "shards", {"per_node": 2}, 1)
    assert {len(part) for part in parts} == {200}
    by_class = np.argsort(dataset.train.targets, kind="stable")
    shard_of = np.empty(2000, np.int64)
    shard_of[by_class] = np.arange(2000) // 100
    dealt = [sorted(set(shard_of[part].tolist())) for part in parts]
    assert all(len(shards) == 2 for shards in dealt)
    assert sorted(shard for shards in dealt for shard in shards) == list(range(20))
    assert sum(shards[1] == shards[0] + 1 for shards in dealt) < 5, "they are dealt at random"
    assert (histogram(dataset, parts) > 0).sum(axis=1).max() <= 4


def as_in_decentralizepy(labels: list[int], learners: int, shards: int, seed: int) -> list[list[int]]:
    """The rule of the specification, written down with plain lists: random runs of what is left, around the end."""
    left = sorted(range(len(labels)), key=lambda at: labels[at])
    whole = len(labels)
    fractions = [(whole // learners) / whole] * learners
    fractions[-1] += 1.0 - fractions[0] * learners
    random = Random(seed)  # noqa: S311
    parts: list[list[int]] = []
    for fraction in fractions:
        part: list[int] = []
        for _ in range(shards):
            start = random.randint(0, len(left) - 1)
            length = int(fraction * whole) // shards
            at = [(start + step) % len(left) for step in range(length)]
            part += [left[each] for each in at]
            gone = set(at)
            left = [index for each, index in enumerate(left) if each not in gone]
        parts.append(part)
    return parts


@pytest.mark.parametrize(("count", "learners", "shards"), [(1000, 10, 2), (1007, 16, 2), (500, 7, 3), (60, 30, 1)])
@pytest.mark.parametrize("seed", [1, 90, 1234])
def test_decpy_shards_are_those_of_decentralizepy(count: int, learners: int, shards: int, seed: int) -> None:
    dataset = toy(count)
    ours = partition(dataset, learners, "shards", {"per_node": shards, "variant": "decpy"}, seed)
    theirs = as_in_decentralizepy(dataset.train.targets.tolist(), learners, shards, seed)
    assert [part.tolist() for part in ours[:-1]] == [sorted(part) for part in theirs[:-1]]
    assert set(theirs[-1]) <= set(ours[-1].tolist())
    assert len(ours[-1]) - len(theirs[-1]) <= learners * shards


def test_decpy_shards_of_cifar_spread_over_classes_as_published() -> None:
    """256 learners, 50 000 samples in 10 equal classes: most have 2 classes, a few more or fewer, the last one all."""
    targets = np.repeat(np.arange(10, dtype=np.int64), 5000)
    dataset = DataSet(
        "c", Kind.CLASSES, 10, (1,), 0, 0, Samples(np.zeros((50_000, 1), np.float32), targets), toy(5).test
    )
    shares = Counter[int]()
    for seed in range(5):
        counts = histogram(dataset, partition(dataset, 256, "shards", {"variant": "decpy"}, seed))
        shares.update((counts > 0).sum(axis=1).tolist())
    assert 0.74 < shares[2] / (5 * 256) < 0.87
    assert 0.04 < shares[1] / (5 * 256) < 0.13
    assert 0.04 < shares[3] / (5 * 256) < 0.14


def test_a_smaller_alpha_is_more_uneven() -> None:
    dataset = toy(20_000)
    kinds = [
        (histogram(dataset, partition(dataset, 10, "dirichlet", {"alpha": alpha}, 1)) > 20).sum(axis=1).mean()
        for alpha in (0.05, 0.5, 100)
    ]
    assert kinds[0] < 4 < kinds[1] < 9.5 < kinds[2] == 10


def test_dirichlet_falls_back_to_one_sample_each() -> None:
    dataset = toy(400)
    sizes = [len(part) for part in partition(dataset, 200, "dirichlet", {"alpha": 0.01}, 1)]
    assert min(sizes) == 1
    assert sum(sizes) == 400
    assert min(len(part) for part in partition(toy(4000), 10, "dirichlet", {"alpha": 0.3}, 1)) >= 10


def test_dirichlet_keeps_a_minimum_that_was_asked_for_or_says_that_it_cannot() -> None:
    dataset = toy(4000)
    assert min(len(part) for part in partition(dataset, 10, "dirichlet", {"alpha": 0.5, "min": 150}, 1)) >= 150
    with pytest.raises(Impossible, match="in 30 tries"):
        partition(dataset, 100, "dirichlet", {"alpha": 0.01, "min": 39}, 1)
    with pytest.raises(Impossible, match="cannot have 41 samples each"):
        partition(dataset, 100, "dirichlet", {"min": 41}, 1)


@pytest.mark.parametrize("order", ["shuffle", "contiguous"])
def test_by_user_keeps_users_whole_in_equal_numbers(order: str) -> None:
    dataset = toy(2000, users=43)
    assert dataset.train.groups is not None
    parts = partition(dataset, 10, "user", {"order": order}, 3)
    owners = [set(dataset.train.groups[part].tolist()) for part in parts]
    assert Counter(len(own) for own in owners) == {5: 3, 4: 7}
    assert sum(len(own) for own in owners) == len(set[int]().union(*owners)) == 43
    runs = [max(own) - min(own) + 1 == len(own) for own in owners]
    assert all(runs) if order == "contiguous" else sum(runs) < 3
    if order == "contiguous":
        assert [len(own) for own in owners] == [5] * 3 + [4] * 7
        assert [min(own) for own in owners] == sorted(min(own) for own in owners)


def test_ratings_are_divided_in_the_order_of_users_and_tested_on_their_own() -> None:
    dataset = ratings(10)
    parts = partition(dataset, 4, "user", {}, 3)
    tested = test_parts(dataset, parts)
    assert dataset.train.groups is not None
    assert dataset.test.groups is not None
    users = [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    assert [sorted(set(dataset.train.groups[part].tolist())) for part in parts] == users
    assert [sorted(set(dataset.test.groups[part].tolist())) for part in tested] == users
    assert sum(map(len, tested)) == len(dataset.test)
    assert targets_of(dataset).tolist() == [1, 2, 3, 4, 5]
    assert histogram(dataset, parts).sum() == len(dataset.train)


def rated(counts: list[int]) -> DataSet:
    """So many ratings by each user."""
    pairs = [(user, item) for user, count in enumerate(counts) for item in range(count)]
    return split_ratings("few", np.array(pairs, np.int32), np.ones(len(pairs), np.float32), 1)


def test_a_learner_that_cannot_be_tried_is_refused() -> None:
    dataset = rated([9, 2, 1, 1])
    with pytest.raises(Impossible, match="learner 2 of 4 has no ratings to test with") as caught:
        test_parts(dataset, partition(dataset, 4, "user", {}, 1))
    assert caught.value.hint
    lucky = rated([9, 1, 1, 2])
    assert [len(part) for part in test_parts(lucky, partition(lucky, 2, "user", {}, 1))] == [3, 1]
    with pytest.raises(Impossible, match="nothing to test with"):
        test_parts(rated([1, 1]), [np.array([0]), np.array([1])])


def test_classes_are_tested_on_everything() -> None:
    dataset = toy(100)
    tested = test_parts(dataset, partition(dataset, 3, "iid", {}, 1))
    assert [part.tolist() for part in tested] == [[0, 1, 2, 3, 4]] * 3


def test_the_histogram_counts() -> None:
    dataset = toy(100, classes=3)
    parts = partition(dataset, 4, "iid", {}, 1)
    expected = [[int((dataset.train.targets[part] == label).sum()) for label in range(3)] for part in parts]
    assert histogram(dataset, parts).tolist() == expected


IMPOSSIBLE: dict[str, tuple[DataSet, int, str, dict[str, object], str]] = {
    "too many learners": (toy(10), 11, "iid", {}, "10 samples to train on, too few for 11 learners"),
    "no learner": (toy(10), 0, "iid", {}, "needs a learner"),
    "too many shards": (toy(10), 6, "shards", {}, "6 learners with 2 shards each need 12 samples"),
    "no users": (toy(10), 2, "user", {}, "does not say which user"),
    "too few users": (toy(90, users=4), 5, "user", {}, "4 users .* too few for 5 learners"),
    "shards of ratings": (ratings(5), 2, "shards", {}, "no classes"),
    "dirichlet of ratings": (ratings(5), 2, "dirichlet", {}, "no classes"),
    "unknown kind": (toy(10), 2, "shard", {}, "no partition called `shard`"),
    "unknown option": (toy(10), 2, "shards", {"per_nod": 2}, "no option `per_nod`"),
    "option of another kind": (toy(10), 2, "iid", {"alpha": 1}, "no option `alpha`"),
    "alpha 0": (toy(10), 2, "dirichlet", {"alpha": 0}, "alpha"),
    "alpha nan": (toy(10), 2, "dirichlet", {"alpha": float("nan")}, "alpha"),
    "alpha a text": (toy(10), 2, "dirichlet", {"alpha": "0.1"}, "alpha"),
    "no shards": (toy(10), 2, "shards", {"per_node": 0}, "per_node"),
    "half a shard": (toy(10), 2, "shards", {"per_node": 1.5}, "per_node"),
    "true shards": (toy(10), 2, "shards", {"per_node": True}, "per_node"),
    "unknown variant": (toy(10), 2, "shards", {"variant": "x"}, "one of grid, decpy"),
}


@pytest.mark.parametrize(("dataset", "learners", "kind", "options", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_says_why(
    dataset: DataSet, learners: int, kind: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(Impossible, match=words) as caught:
        partition(dataset, learners, kind, options, 1)
    assert caught.value.exit_code == ExitCode.INVALID_INPUT


def test_as_many_learners_as_samples_can_be() -> None:
    for kind, options in (("iid", {}), ("shards", {"per_node": 1}), ("dirichlet", {})):
        assert [len(part) for part in partition(toy(12), 12, kind, options, 1)] == [1] * 12


def test_a_class_without_samples_is_no_trouble() -> None:
    dataset = toy(300, classes=3)
    wider = DataSet("toy", Kind.CLASSES, 5, (1,), 0, 0, dataset.train, dataset.test)
    for kind in set(KINDS) - {"user"}:
        assert_disjoint_and_covering(partition(wider, 7, kind, {}, 1), 300)
