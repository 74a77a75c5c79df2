"""A dry run knows what a run will cost before its data is there, and fetches nothing to know it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.node.data import fetch
from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_speed import Speed, bare_loops
from testbed.runtimes import machine_speed

SMALL = """
services:
  a: {replicas: 6}
bridges: [r]
links: [{from: a, to: r, latency: 20ms, rate: 100Mbps}]
"""


@pytest.fixture(autouse=True)
def _no_data_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*_arguments: object) -> None:
        raise AssertionError("a dry run fetches nothing")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESTBED_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fetch, "_fetch", fetched)
    Path("small.yaml").write_text(SMALL)


def dry_run(*arguments: str, expect: int = 0) -> Result:
    result = CliRunner().invoke(main, ["deploy", "small.yaml", "--dry-run", *arguments])
    assert result.exit_code == expect, result.output
    assert not Path("data").exists()
    return result


def planned(*arguments: str) -> dict[str, Any]:
    found = json.loads(dry_run("--format", "json", *arguments).stdout)
    assert isinstance(found, dict)
    return found


def test_virtual_time() -> None:
    plan = planned()
    assert plan["parameters"] == 83_754
    assert plan["samples"] == {"min": 10_000, "median": 10_000, "max": 10_000}
    assert not plan["samples_estimated"]
    assert plan["ms_per_step"] == 20.0
    known = plan["estimate"]
    assert known["round_bytes"] == 6 * 5 * (4 * 83_754 + 60)
    assert known["total_bytes"] == known["round_bytes"] * known["rounds"]
    assert 0 < known["round_s"] < known["total_s"]
    assert "unknown" not in dry_run().stdout


def test_epochs_are_as_long_as_the_samples_are_many() -> None:
    """Shards of unequal size, as `decpy` cuts them: all of it comes from the number of samples."""
    words = ("--data", "cifar10", "--set", "training.epochs=1", "--set", "data.partition.variant=decpy")
    plan = planned(*words, "--set", "training.batch=32")
    assert plan["samples"]["min"] == 8332
    assert plan["steps_per_round"] == 8332 // 32


@pytest.mark.parametrize(("partition", "estimated"), [("user", True), ("iid", False)])
def test_ratings(partition: str, estimated: bool) -> None:
    words = ("--data", "movielens", "--set", f"data.partition={partition}")
    plan = planned(*words)
    assert plan["parameters"] == 20 * (943 + 1682)
    assert plan["samples"]["median"] == pytest.approx(70_058 / 6, rel=0.01)
    assert plan["samples_estimated"] is estimated
    assert ("(estimated: movielens is not here yet)" in dry_run(*words).stdout) is estimated


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["local", "docker"])
def test_real_processes(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is measured on samples that are made up; the time scale and the rest follow from it."""
    trained = []

    def measured(trainer: Trainer, parts: Sequence[Indices], *, at_most_s: float, **how: Any) -> Speed:
        trained.append((trainer.dataset.name, len(trainer.dataset.train), sum(map(len, parts)), at_most_s))
        return replace(bare_loops(trainer, parts, at_most_s=0.01, **how), steps_per_s=100.0)

    monkeypatch.setattr(machine_speed, "bare_loops", measured)
    plan = planned("--runtime", runtime)
    assert trained == [("fashion-mnist", 60_000, 60_000, 0.7)]
    assert (plan["runtime"], plan["parameters"]) == (runtime, 83_754)
    # Six learners share a hundred steps a second of real time.
    assert plan["ms_per_step"] * plan["time_scale"] > 6 / 100 * 1000
    assert plan["estimate"]["round_s"] > 0


def test_what_cannot_be_is_said_without_the_data() -> None:
    wrong = dry_run("--set", "data.partition=user", expect=3)
    assert "fashion-mnist does not say which user a sample is of" in wrong.stderr
    assert "mf learns ratings, which mnist has not" in dry_run("--data", "mnist", "--model", "mf", expect=3).stderr
