"""What an experiment says about its data is what its nodes get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.errors import InvalidInput
from testbed.experiment.attached import own_files
from testbed.experiment.language import Data, Experiment
from testbed.experiment.read import experiment_on, load_experiment, setting
from testbed.node.data.catalogue import ENTRIES
from testbed.node.data.experiment_data import PartitionedData, is_at_hand, partition_data
from testbed.node.data.load import load_dataset
from testbed.node.data.problems import Impossible

RATINGS = "userId,movieId,rating,timestamp\n" + "".join(
    f"{user},{item},{1 + (user + item) % 5},0\n" for user in range(4) for item in range(8)
)


def shared_out(learners: int = 4, **data: Any) -> PartitionedData:
    return partition_data(Experiment.model_validate({"topology": "t", "data": data}), learners, seed=1)


def test_options_reach_the_data_set() -> None:
    made = shared_out(name="synthetic", samples=400, users=8, classes=3, features=5, partition="iid").dataset
    assert (len(made.train) + len(made.test), made.classes, made.input_shape) == (400, 3, (5,))
    assert made.train.groups is not None
    assert len(np.unique(made.train.groups)) == 8
    means = {how: shared_out(name="digits", normalise=how).dataset.mean for how in ("channel", "half", "none")}
    assert means["half"] == (0.5,)
    assert means["none"] == ()
    assert means["channel"] == shared_out(name="digits").dataset.mean == ENTRIES["digits"].mean


@pytest.mark.parametrize("name", ["synthetic", "digits"])
def test_the_languages_defaults_are_those_of_the_data_set(name: str) -> None:
    plain, told = load_dataset(name, {}, 1), shared_out(name=name).dataset
    np.testing.assert_array_equal(plain.train.inputs, told.train.inputs)
    assert (plain.mean, plain.std) == (told.mean, told.std)


def test_every_data_set_has_its_options() -> None:
    assert set(Data.built_in) == set(ENTRIES)


def test_options_reach_the_partition() -> None:
    uneven = {"name": "digits", "partition": {"kind": "dirichlet", "alpha": 0.3}}
    least = min(shared_out(10, **uneven).sizes)
    assert least < 80
    bound = {**uneven, "partition": {"kind": "dirichlet", "alpha": 0.3, "min": least + 5}}
    assert min(shared_out(10, **bound).sizes) >= least + 5
    with pytest.raises(Impossible):
        shared_out(10, **{**uneven, "partition": {"kind": "dirichlet", "min": 151}})
    users = {"name": "synthetic", "samples": 400, "users": 8}
    ranks = {}
    for order in ("shuffle", "contiguous"):
        made = shared_out(4, **users, partition={"kind": "user", "order": order})
        assert made.dataset.train.groups is not None
        ranks[order] = [sorted(set(made.dataset.train.groups[part].tolist())) for part in made.parts]
    assert ranks["contiguous"] == [[0, 1], [2, 3], [4, 5], [6, 7]] != ranks["shuffle"]


def test_ratings_of_ones_own_are_found_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ratings.csv").write_text(RATINGS)
    file = tmp_path / "mine" / "x.yaml"
    file.write_text("topology: t\ndata: {name: movielens, path: ratings.csv}\n")
    experiment = load_experiment(file).require()
    assert len(partition_data(experiment, 4, seed=1, cache=tmp_path / "empty").dataset.train) == 24
    assert list(own_files(experiment)) == [str(tmp_path / "mine" / "ratings.csv")]
    assert is_at_hand("movielens", experiment.data.options, tmp_path / "empty")
    assert not is_at_hand("movielens", cache=tmp_path / "empty")


def test_who_could_not_be_tried_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(RATINGS + "9,1,5,0\n")
    data = {"name": "movielens", "path": str(tmp_path / "ratings.csv")}
    with pytest.raises(Impossible, match="learner 4 of 5 has no ratings to test with"):
        shared_out(5, **data)
    assert len(shared_out(2, **data).parts) == 2


def test_an_option_on_the_command_line_stands_beside_the_name(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(RATINGS)
    settings = [setting("data.name=movielens"), setting(f"data.path={tmp_path / 'ratings.csv'}")]
    assert experiment_on("t", settings).require().data.options == {"path": str(tmp_path / "ratings.csv")}
    with pytest.raises(InvalidInput) as caught:
        experiment_on("t", [setting("data.name=movielens"), setting("data.path=nowhere.csv")]).require()
    assert [each.code for each in caught.value.findings] == ["no-file"]
