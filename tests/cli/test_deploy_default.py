"""Which runtime `deploy` takes when nobody says which, what it prints at its end for programs, and exit code 5."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.cli.run_choice import choose_runtime
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.progress import Watch
from testbed.engines.denied import NetworkDenied, Step
from testbed.errors import PreflightRefused, UsageProblem
from testbed.records import Failure
from tests.cli.denied import command_where
from tests.runtimes.local_runs import needs_network

SMALL = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 5ms, rate: 20Mbps}]
"""
QUICK = ("small.yaml", "--data", "digits", "--rounds", "2", "--set", "compute.ms_per_step=20")


@pytest.fixture(autouse=True)
def _nothing_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TESTBED_RUNTIME")
    Path("small.yaml").write_text(SMALL)


def deploy(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["deploy", *QUICK, *arguments])


def allowed(monkeypatch: pytest.MonkeyPatch, denied: NetworkDenied | None) -> None:
    monkeypatch.setattr("testbed.cli.run_choice.what_is_denied", lambda _tcp: denied)


def test_real_processes_are_the_default_where_the_machine_allows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    told: list[str] = []
    assert choose_runtime(None, None, told.append) == "local"
    assert choose_runtime(None, "fabric", told.append) == "local"
    (words, _) = told
    assert words.startswith("runtime: local (this machine lets every node have a network of its own")


def test_where_it_does_not_nothing_else_is_taken_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, NetworkDenied(Step.TUN_DEVICE, "No such file or directory", 2))
    told: list[str] = []
    for engine in (None, "fabric"):
        with pytest.raises(PreflightRefused) as refused:
            choose_runtime(None, engine, told.append)
        assert "opening /dev/net/tun was denied: No such file or directory" in refused.value.message
        for words in ("testbed doctor", "--runtime sim", "--engine none"):
            assert words in refused.value.hint
    assert told == []
    assert choose_runtime(None, "none", told.append) == "local"
    assert choose_runtime("sim", None, told.append) == "sim"
    assert told == ["runtime: local (real processes, no engine)"]


def test_the_environment_goes_before_the_default_and_an_option_before_both(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, None)
    told: list[str] = []
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")
    assert choose_runtime(None, None, told.append) == "sim"
    assert told == ["runtime: sim (TESTBED_RUNTIME says so)"]
    assert choose_runtime("local", None, told.append) == "local"
    monkeypatch.setenv("TESTBED_RUNTIME", "locl")
    with pytest.raises(UsageProblem, match="TESTBED_RUNTIME: there is no runtime `locl`"):
        choose_runtime(None, None, told.append)
    assert len(told) == 1


@pytest.mark.parametrize("what", ["no TUN device", "no user namespaces"])
def test_a_machine_that_denies_networks_is_told_of_before_anything_is_made(what: str) -> None:
    result = command_where(what, "deploy", *QUICK, TESTBED_RUNTIME="")
    assert result.returncode == 4, result.stderr
    assert "--runtime sim" in result.stderr
    assert not Path("results").exists()


@needs_network
def test_a_run_with_nothing_said_is_of_real_processes_and_its_summary_is_data() -> None:
    result = deploy("--run-id", "one", "--format", "json")
    assert result.exit_code in (0, 7), result.stderr  # a busy machine may not keep up
    assert json.loads(Path("results/one/plan.json").read_text())["runtime"] == "local"
    assert json.loads(result.stdout) == json.loads(Path("results/one/summary.json").read_text())
    assert "finished: 4 nodes, 2 rounds" in result.stderr


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_a_run_in_virtual_time_has_a_summary_too(form: str) -> None:
    result = deploy("--run-id", "one", "--runtime", "sim", "--workers", "0", "--format", form)
    assert result.exit_code == 0, result.stderr
    if form == "json":
        found = json.loads(result.stdout)
        assert (found["run_id"], found["health"], found["finished"], found["failed"]) == ("one", "valid", 4, [])
    elif form == "csv":
        lines = result.stdout.splitlines()
        assert lines[0] == "what,value"
        assert "computing_works,0" in lines
    else:
        assert result.stdout == ""
    assert "finished: 4 nodes, 2 rounds" in result.stderr


BEGAN = Watch((0,), 3, None).look(1.0)
FAILED = (NodeFailure("a", Failure("no")),)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome("finished", 1.0, 1, (), BEGAN), 0),
        (Outcome("finished", 1.0, 1, (), BEGAN, overloaded=("late",)), 7),
        (Outcome("failed", 1.0, 1, FAILED, BEGAN, overloaded=("late",)), 6),
        (Outcome("failed", 1.0, 1, (), BEGAN, broken=("the fabric is gone",)), 6),
        (Outcome("failed", 0.0, 1, (), None, broken=("the fabric is gone",)), 5),
        (Outcome("failed", 0.0, 1, FAILED, None, broken=("the fabric is gone",)), 5),
        (Outcome("failed", 0.0, 1, FAILED, None), 6),
        (Outcome("interrupted", 0.0, 1, (), None, broken=("the fabric is gone",)), 130),
    ],
)
def test_the_exit_code_says_what_became_of_a_run(outcome: Outcome, code: int) -> None:
    assert outcome.exit_code == code
