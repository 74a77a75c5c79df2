"""`testbed calibrate`: measures, and fetches nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.calibrate import command
from testbed.cli.main import main
from testbed.node.models.problems import ModelProblem

SHORT = ("--model", "mlp", "--data", "digits", "--steps", "40")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*SHORT, *arguments])


@pytest.mark.slow
def test_json_has_all_figures() -> None:
    result = run("--batch", "4", "--format", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["model"], found["data"], found["batch"], found["parameters"]) == ("mlp", "digits", 4, 2410)
    assert found["nominal_ms_per_step"] == 10
    assert found["measured"][0]["processes"] == 1
    for row in found["measured"]:
        assert 0 < row["median_ms_per_step"] <= row["p95_ms_per_step"]
        assert row["steps_per_s"] > 0
    best = max(row["steps_per_s"] for row in found["measured"])
    assert [row["learners"] for row in found["sustained"]] == [16, 64, 256, 1024]
    for row in found["sustained"]:
        exact = row["learners"] / best * 1000
        assert 1.15 * exact < row["sustained_ms_per_step"] < 1.35 * exact


def test_table_is_for_people() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    assert "median_ms_per_step" in result.stdout
    assert "1024" in result.stdout
    assert "2410 parameters" in result.stderr
    median = next(line.split()[1] for line in result.stdout.splitlines() if line.startswith("1 ") or " 1 " in line)
    assert f"--set compute.ms_per_step={median} " in result.stderr.splitlines()[-1]


def test_csv_is_one_table() -> None:
    rows = list(csv.DictReader(io.StringIO(run("--format", "csv").stdout)))
    assert [row["learners"] for row in rows if row["learners"]] == ["16", "64", "256", "1024"]
    assert rows[0]["processes"] == "1"


@pytest.mark.slow
def test_ratings_and_images_need_no_download() -> None:
    for model, data in (("mf", "movielens"), ("logistic", "cifar10")):
        result = CliRunner().invoke(command, ["--model", model, "--data", data, "--steps", "10", "--format", "json"])
        assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["parameters"] == 30_730


def test_what_does_not_fit_is_told() -> None:
    result = CliRunner().invoke(command, ["--model", "mf", "--data", "digits"])
    assert isinstance(result.exception, ModelProblem)
    assert CliRunner().invoke(command, ["--data", "imagenet"]).exit_code == 2
    assert CliRunner().invoke(command, ["--batch", "0"]).exit_code == 2


MODEL = """from torch import nn


class Net(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x{more})
"""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (".flatten(2)", "own.py: Expected target size"),
        (".flatten(1).nonsense", "own.py:10: 'Tensor' object has no attribute 'nonsense'"),
        (".flatten(1)) * float('nan'", "the loss is nan"),
    ],
)
def test_a_model_of_ones_own_that_is_wrong_is_told_with_its_line(tmp_path: Path, more: str, words: str) -> None:
    (tmp_path / "own.py").write_text(MODEL.replace("{more}", more))
    result = CliRunner().invoke(
        main, ["calibrate", "--model", f"{tmp_path / 'own.py'}:Net", "--data", "digits", "--steps", "5"]
    )
    assert result.exit_code == 3, result.output
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_a_model_of_ones_own_is_measured(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(MODEL.replace("{more}", ".flatten(1)"))
    given = ["--model", f"{tmp_path / 'own.py'}:Net", "--data", "digits", "--steps", "20", "--format", "json"]
    result = CliRunner().invoke(main, ["calibrate", *given])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["parameters"] == 650
