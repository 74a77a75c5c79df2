"""`testbed verify`: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click
import pytest
from click.exceptions import Exit
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.cli.output import Format
from testbed.cli.verify import COLUMNS, _tell, command
from testbed.engines.fabric.requests import FabricLost
from testbed.errors import ExitCode, PreflightRefused, UsageProblem
from testbed.plan.files import write_plan
from testbed.rundir import create_run
from testbed.runtimes.tracking.process_records import Places, process_record, record_of
from testbed.topologies.model import Topology
from testbed.verify import prepare
from testbed.verify.judge import Row, Verdict
from testbed.verify.measure import Measured
from testbed.verify.plan import Plan
from testbed.verify.probe_processes import MeasuringFailed
from testbed.verify.sizing import Effort
from testbed.verify.tools import Tools
from tests.engines.quiet import skip_where_nobody_keeps_time, wait_for_quiet
from tests.engines.world import needs_network
from tests.plan.test_make import nodes
from tests.plan.test_make import plan_of as plan_with

MOST_ATTEMPTS = 3
SMALL = """
services: {a: {}, b: {}}
links:
  - {from: a, to: b, latency: 5ms, rate: 20Mbps, queue: 20ms}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return str(path)


def quick(topology: Topology, count: int, seed: int, effort: Effort, _tools: Tools) -> Plan:
    """Without the shared bottleneck, which takes 25 seconds, and without programs that may be missing."""
    plan = plan_of(topology, count, seed, effort)
    return Plan(plan.pairs, None, effort, plan.change)


plan_of = prepare.plan_of


@pytest.mark.soaked
@needs_network
@pytest.mark.alone
def test_a_right_network_passes(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again where it was found wrong: others may have this machine, too."""
    monkeypatch.setattr(prepare, "plan_of", quick)
    for _ in range(MOST_ATTEMPTS):
        result = CliRunner().invoke(command, [file, "--format", "json"])
        if result.exit_code == ExitCode.OK:
            break
        wait_for_quiet()
    told = json.loads(result.stdout)
    if result.exit_code != ExitCode.OK:
        skip_where_nobody_keeps_time(told["overloaded"])
    assert result.exit_code == ExitCode.OK, result.output
    assert told["as_asked"] is True
    assert told["pairs"] == [{"pair": "a.0 → b.0", "why": "shortest"}]
    found = {row["what"]: row for row in told["measurements"]}
    assert set(found) == {"round trip", "loss", "drops counted", "change", "change back", "queue", "rate (TCP)"}
    assert all(list(row) == list(COLUMNS) and row["verdict"] == "ok" for row in told["measurements"])
    assert found["round trip"]["asked"] == pytest.approx(10.045, abs=0.01)
    assert 17.0 <= found["queue"]["measured"] <= 23.0
    assert "cubic" in found["rate (TCP)"]["detail"]
    assert "0 out of bounds" in result.stderr


@needs_network
def test_a_wrong_network_ends_with_seven(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is: nothing makes a path faster."""
    config_for = prepare.config_for

    def wrong(topology: Topology, seed: int, folder: Path, data_plane: str) -> object:
        from testbed.topologies.load import load_bytes
        from testbed.topologies.source import Form

        slower = load_bytes(SMALL.replace("5ms", "7ms").encode(), Form.YAML, "slower").require()
        assert len(slower.nodes) == len(topology.nodes)
        return config_for(slower, seed, folder, data_plane)

    monkeypatch.setattr(prepare, "plan_of", quick)
    monkeypatch.setattr(prepare, "config_for", wrong)
    result = CliRunner().invoke(command, [file, "--format", "csv"])
    assert result.exit_code == 7
    wrong_rows = [line for line in result.stdout.splitlines() if ",wrong," in line]
    assert "round trip" in [line.split(",")[1] for line in wrong_rows]
    assert re.search(r"\d measurements of 1 pair, \d+ out of bounds", result.stderr)


@pytest.mark.soaked
@needs_network
def test_a_measurement_that_fails_takes_nothing_from_the_others(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and is no bug of ours."""

    def fails(*_: object) -> list[Row]:
        raise MeasuringFailed("a process that measures has ended")

    monkeypatch.setattr(prepare, "plan_of", quick)
    monkeypatch.setattr("testbed.verify.measure.all_losses", fails)
    result = CliRunner().invoke(command, [file, "--format", "json"])
    assert result.stdout, (result.exception, result.stderr)
    told = json.loads(result.stdout)
    found = {row["what"] for row in told["measurements"]}
    assert found == {"round trip", "change", "change back", "queue", "rate (TCP)"}, (
        "what was sent is not known any more"
    )
    assert told["left_out"] == ["losses: a process that measures has ended"]
    is_right = told["as_asked"] and not told["overloaded"]
    assert result.exit_code == (ExitCode.INCOMPLETE if is_right else ExitCode.NOT_AS_ASKED)


def test_what_is_incomplete_ends_with_eight_unless_something_is_wrong() -> None:
    wrong = Row("a → b", "loss", 1.0, 2.0, "%", Verdict.WRONG)
    for rows, code in (((), ExitCode.INCOMPLETE), ((wrong,), ExitCode.NOT_AS_ASKED)):
        with click.Context(command), pytest.raises(Exit) as ended:
            _tell("small", [], Measured(rows, (), ("losses: no",), is_complete=False), Format.JSON)
        assert ended.value.exit_code == code


def test_what_was_measured_while_the_fabric_was_late_proves_nothing() -> None:
    right = Row("a → b", "loss", 1.0, 1.0, "%", Verdict.OK)
    found = Measured((right,), ("2 % of the packets were late",), (), is_complete=True)
    with click.Context(command), pytest.raises(Exit) as ended:
        _tell("small", [], found, Format.JSON)
    assert ended.value.exit_code == ExitCode.NOT_AS_ASKED


def test_a_fabric_that_is_killed_is_no_bug_of_ours() -> None:
    assert FabricLost("gone").exit_code is ExitCode.NOT_STARTED


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_without_a_network_is_refused(goes_on: bool, tmp_path: Path) -> None:
    """Whether it goes on or is over: nothing of it could be right or wrong."""
    run = create_run(tmp_path, "plain")
    write_plan(run, plan_with(nodes(2)).model_copy(update={"runtime": "local", "engine": "none"}))
    if goes_on:
        record_of(run).parent.mkdir()
        Places(run, tmp_path).write_record([process_record("control", os.getpid())])
    refused = CliRunner().invoke(main, ["verify", str(run.path), "--format", "json"])
    assert (refused.exit_code, refused.stdout) == (ExitCode.REFUSED, "")
    assert "the run plain has no emulated network: its engine is `none`" in refused.stderr
    assert f"testbed verify {run.topology}" in refused.stderr
    assert run.topology.is_file()


def test_a_mistyped_run_is_not_taken_for_a_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_plan(create_run(tmp_path / "results", "my-own-run"), plan_with(nodes(2)))
    refused = CliRunner().invoke(main, ["verify", "my-onw-run"])
    assert refused.exit_code == ExitCode.USAGE
    assert "my-onw-run is neither a topology nor a run" in refused.stderr
    assert "did you mean `my-own-run`?" in refused.stderr
    other = CliRunner().invoke(main, ["verify", "wan17"])
    assert "wan17: does not exist" in other.stderr


def test_what_was_left_out_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    found = Measured((), (), ("jitter: in the way", "losses on 3 lossy links: too little"))
    with click.Context(command):
        _tell("small", [], found, Format.JSON)
    told = capsys.readouterr()
    assert json.loads(told.out)["left_out"] == list(found.left_out)
    assert [line for line in told.err.splitlines() if "not measured" in line] == [
        "not measured: jitter: in the way",
        "not measured: losses on 3 lossy links: too little",
    ]


def test_a_network_without_paths(tmp_path: Path) -> None:
    path = tmp_path / "alone.yaml"
    path.write_text("services: {a: {replicas: 2}}\n")
    result = CliRunner().invoke(command, [str(path)])
    assert isinstance(result.exception, UsageProblem)


def test_where_the_machine_denies_it_nothing_is_started(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = PreflightRefused("no network here")
    monkeypatch.setattr("testbed.engines.network_check.what_is_denied", lambda _tcp: denied)
    result = CliRunner().invoke(command, [file])
    assert result.exception is denied
    assert not result.stdout
