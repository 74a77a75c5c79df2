"""`deploy --detach`: what programs are told, and what is said where the run cannot even be started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli.run_signals import RunSignals
from testbed.errors import CouldNotStart, UsageProblem
from testbed.rundir import TakenRun, create_run
from testbed.runtimes.processes.runtime import LocalRuntime
from testbed.runtimes.run_place import run_place
from tests.plan.test_make import nodes, plan_of
from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import PATIENCE_S, ScratchRun, until


@needs_network
def test_programs_are_told_which_run_it_is(scratch: ScratchRun) -> None:
    scratch.write_plan()
    words = scratch.words("--detach", "--format", "json")
    done = subprocess.run(
        words, capture_output=True, text=True, env=scratch.environment, timeout=PATIENCE_S, check=False
    )
    try:
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found == {"run_id": "long", "folder": str(scratch.run.path)}
        assert "the run goes on" in done.stderr
        until(lambda: scratch.phase() == "training")
    finally:
        assert scratch.testbed("destroy", "long").exit_code == 0


@needs_network
def test_a_control_that_is_killed_before_any_node_began_is_named(scratch: ScratchRun) -> None:
    with scratch.start("--detach") as process:
        until(lambda: scratch.process("control"), process)
        control = scratch.process("control")
        assert control is not None
        os.kill(control.pid, signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert "Error: the run's control was killed by SIGKILL" in said
    assert process.returncode == 5
    assert scratch.testbed("destroy", "long").exit_code == 0


@pytest.mark.parametrize("wrong", ["program", "folder"])
@pytest.mark.processes
def test_what_cannot_be_started_is_told(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, plan = TakenRun(create_run(tmp_path, "run").path), plan_of(nodes(2))
    if wrong == "program":
        monkeypatch.setattr(sys, "executable", "/no/such/python")
    else:
        (run.path / "runtime").write_text("in the way")
    with pytest.raises(CouldNotStart, match="cannot start the run's own process: "):
        LocalRuntime().run(plan, run, {"detach": True}, RunSignals(quiet=True, say=print))


def test_a_run_that_goes_on_by_itself_holds_its_directory_before_it_has_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited: list[int] = []

    def started(*_: object, pass_fds: tuple[int, ...], **_more: object) -> None:
        inherited.extend(map(os.dup, pass_fds))
        raise OSError("the rest is not tried here")

    monkeypatch.setattr("testbed.engines.spawn.spawn_module", started)
    plan = plan_of(nodes(2)).model_copy(update={"run_id": "r"})
    with run_place(tmp_path, plan, overwrite=False, say=print) as run, pytest.raises(CouldNotStart):
        LocalRuntime().run(plan, run, {"detach": True}, RunSignals(quiet=True, say=print))
    with pytest.raises(UsageProblem, match="that run goes on"), run_place(tmp_path, plan, overwrite=True, say=print):
        pass
    for each in inherited:
        os.close(each)
    with run_place(tmp_path, plan, overwrite=False, say=print):
        pass
