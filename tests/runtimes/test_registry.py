"""A runtime is one object in one list: a toy that is put there works with every command, and none of them knows it."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import testbed.cli
from testbed.cli.main import main
from testbed.cli.verbs import VERBS
from testbed.control.log import ControlLog
from testbed.control.outcome import Outcome
from testbed.endpoints import Endpoint
from testbed.errors import PreflightRefused, UsageProblem
from testbed.plan.model import PlannedNode, RunPlan
from testbed.records import Over
from testbed.rundir import RunDirectory, TakenRun
from testbed.runtimes import registry
from testbed.runtimes.runtime import Check, Checking, Console, Facts, Given, LiveRun, Remains, RunOption, Runtime
from testbed.runtimes.tracking.leftovers import Removed

SMALL = """
services:
  a: {replicas: 3}
bridges: [r]
links: [{from: a, to: r, latency: 5ms, rate: 20Mbps}]
"""
QUICK = ("small.yaml", "--data", "digits", "--rounds", "2", "--set", "compute.ms_per_step=20")
INK = RunOption("--ink", "What paper is written with.", choices=("blue", "red"), decides=True)


class Paper(Runtime):
    """Writes down that a run has been; one with red ink goes on until it is destroyed."""

    name = "paper"
    facts = Facts("nodes on paper", engines=("pen",), is_virtual=False)
    options = (INK,)

    def check(self, plan: RunPlan, how: Checking) -> RunPlan:
        if len(plan.nodes) > 100:
            raise PreflightRefused("the sheet is too small")
        how.say("there is paper")
        return plan

    def checks(self) -> Iterator[Check]:
        yield Check("paper", True, "a pile of it")

    def run(self, plan: RunPlan, directory: TakenRun, given: Given, console: Console) -> Outcome | None:
        with console.watching() as view:
            view.starting("sharpening the pencil")
        if given.get("ink") == "red":
            (directory.path / "runtime").mkdir()
            self._sign(directory).touch()
            return None
        log = ControlLog(directory.events)
        log.write(Over(1.0, "finished", finished=len(plan.nodes), failed=0))
        log.close()
        return Outcome("finished", 1.0, len(plan.nodes), ())

    def goes_on(self, run: RunDirectory) -> bool:
        return self._sign(run).exists()

    def attach(self, run: RunDirectory) -> LiveRun:
        if not self.goes_on(run):
            raise UsageProblem(f"the run {run.path.name} does not go on")
        return Sheet(run)

    def remains(self, run: RunDirectory) -> Remains:
        return Remains.GOES_ON if self.goes_on(run) else Remains.NOTHING

    def destroy(self, run: RunDirectory) -> Removed:
        if not self.goes_on(run):
            return Removed(remark="paper is patient")
        self._sign(run).unlink()
        return Removed(("paper",), files=True)

    def _sign(self, run: RunDirectory) -> Path:
        return run.path / "runtime" / "goes-on"


class Sheet(LiveRun):
    @property
    def control(self) -> Endpoint:
        raise PreflightRefused("paper takes no commands")

    @property
    def fabric(self) -> Endpoint:
        raise PreflightRefused("paper carries no packets")

    def pids(self, rank: int | None = None) -> dict[int, int]:  # noqa: ARG002
        return {}

    def exec(self, node: PlannedNode, words: Sequence[str]) -> int:
        return 40 + node.rank + len(words)

    def may_enter_networks(self) -> None:
        raise PreflightRefused("paper has no networks")


@pytest.fixture(autouse=True)
def _toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "RUNTIMES", (*registry.RUNTIMES, Paper()))
    monkeypatch.delitem(sys.modules, "testbed.cli.deploy", raising=False)  # whose options are made when it is loaded
    Path("small.yaml").write_text(SMALL)


def told(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == code, result.output
    return result


def test_a_run_is_planned_checked_made_collected_and_made_again() -> None:
    shown = told("deploy", *QUICK, "--runtime", "paper", "--dry-run", "--format", "json")
    assert (json.loads(shown.stdout)["runtime"], json.loads(shown.stdout)["engine"]) == ("paper", "pen")
    done = told("deploy", *QUICK, "--runtime", "paper", "--run-id", "one")
    assert "there is paper" in done.stderr
    assert "finished: 3 nodes" in done.stderr
    plan = json.loads(Path("results/one/plan.json").read_text())
    assert plan["runtime_facts"] == {"is_virtual": False, "is_judged": True}
    again = told("deploy", "--plan", "results/one/plan.json", "--run-id", "two")
    assert "there is paper" in again.stderr
    (row,) = json.loads(told("status", "one", "--format", "json").stdout)
    assert row["state"] == "finished"
    told("collect", "results/one", code=8)  # paper keeps no journals
    assert "nothing was printed" in told("logs", "one").stderr
    assert "one: paper is patient" in told("destroy", "one").stderr


def test_commands_reach_a_run_that_goes_on() -> None:
    begun = told("deploy", *QUICK, "--ink", "red", "--run-id", "one")
    assert "next: testbed status results/one" in begun.stderr
    told("exec", "one", "a.1", "--", "ls", "-l", code=43)
    (row,) = json.loads(told("status", "one", "--format", "json").stdout)
    assert row["state"] == "starting"
    assert "paper takes no commands" in told("fault", "crash", "one", "a.0", code=4).stderr
    assert "paper takes no commands" in told("link", "reset", "one", code=4).stderr
    assert "paper carries no packets" in told("link", "show", "one", "a.0", "r", code=4).stderr
    assert "paper carries no packets" in told("capture", "one", "a.0", code=4).stderr
    assert "paper has no networks" in told("verify", "one", code=4).stderr
    taken = told("deploy", *QUICK, "--ink", "red", "--run-id", "one", "--overwrite", code=2)
    assert "that run goes on" in taken.stderr
    assert "one: ended paper" in told("destroy", "one").stderr
    told("fault", "crash", "one", "a.0", code=2)


def test_an_option_of_its_own_is_for_it_alone() -> None:
    assert "--ink" in told("deploy", "--help").stdout
    refused = told("deploy", *QUICK, "--runtime", "sim", "--ink", "blue", code=2)
    assert "runtime `sim`, virtual time, takes no --ink" in refused.stderr
    assert "--ink is for --runtime paper" in refused.stderr


def test_doctor_asks_it() -> None:
    assert "a pile of it" in CliRunner().invoke(main, ["doctor"]).stdout


def test_no_command_knows_a_runtime_by_name() -> None:
    """Nor does any other file beside the commands; help and examples may name what a user can type."""
    names = {each.name for each in registry.RUNTIMES}
    folder = Path(testbed.cli.__file__).parent
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert found == []
    assert len(VERBS) > 20
