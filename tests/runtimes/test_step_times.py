"""How long a local step must take on this machine: measured no longer than it takes to tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.node.training_speed import Speed, bare_loops
from testbed.runtimes import machine_speed
from testbed.runtimes.machine_speed import step_times
from tests.runtimes.sim_runs import plan_of, star


@pytest.fixture
def measured_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long each time."""
    lasted: list[float] = []

    def measured(*arguments: object, at_most_s: float, **how: object) -> Speed:
        lasted.append(at_most_s)
        return bare_loops(*arguments, at_most_s=0.01, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(machine_speed, "bare_loops", measured)
    return lasted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen_ms", "looks"),
    [(0.0, [0.7]), (1e6, [0.1]), (1e-3, [0.1, 0.7])],
    ids=["nothing is chosen", "long enough in any case", "too short"],
)
def test_a_glance_is_enough_where_the_step_that_is_chosen_is_ample(
    chosen_ms: float, looks: list[float], measured_s: list[float]
) -> None:
    times = step_times(plan_of(star(4)).experiment, 4, 0.001, chosen_ms)
    assert measured_s == looks
    assert 0 < times.least < times.sustained


@pytest.mark.slow
@pytest.mark.usefixtures("measured_s")
@pytest.mark.parametrize(
    ("algorithm", "counts"),
    [
        ({"name": "dpsgd"}, False),
        ({"name": "epidemic", "mode": "local"}, True),
        ({"name": "tests.node.test_own:Mine"}, True),
    ],
    ids=["in step", "free running", "one's own"],
)
def test_what_is_sent_counts_where_others_train_meanwhile(algorithm: dict[str, object], *, counts: bool) -> None:
    """Where all wait for each other they train at the same time, and what they send has the machine for itself."""
    experiment = plan_of(star(4)).experiment
    chosen = type(experiment.algorithm).model_validate(algorithm)
    sustained = [
        step_times(experiment.model_copy(update={"algorithm": chosen}), 4, sending_s).sustained
        for sending_s in (0.0, 500.0)
    ]
    assert (sustained[1] > 10 * sustained[0]) == counts


SMALL = """
services:
  a: {replicas: 2}
bridges: [r]
links: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]
"""
DEPLOY = """
import sys
from click.testing import CliRunner
from testbed.cli.main import main

words = ["deploy", "small.yaml", "--data", "digits", "--dry-run", "--engine", "none", *sys.argv[1:]]
result = CliRunner().invoke(main, words)
print(result.exit_code, *sorted({"torch", "torch._dynamo"} & set(sys.modules)))
"""


@pytest.mark.processes
def test_torchs_compiler_is_not_loaded(tmp_path: Path) -> None:
    """It takes a second, and nothing needs it: not the nominal cost of a step either."""
    (tmp_path / "small.yaml").write_text(SMALL)
    loaded = subprocess.run(
        [sys.executable, "-c", DEPLOY, "--runtime", "local"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == ["0", "torch"]
