"""Any process of a run is killed, in any phase: a clear word, the right exit code, and nothing that stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from testbed.records import Over
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.leftovers import destroy, is_alive
from testbed.runtimes.tracking.ownership import MARK, new_mark
from testbed.runtimes.tracking.process_records import ProcessRecord, RunRecord, process_record
from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import ENDLESS, PATIENCE_S, ScratchRun, until
from tests.runtimes.sim_runs import records

OURS = new_mark()

pytestmark = needs_network

PHASES = ("starting", "training", "ending")
WORDS = {
    "node 2": "node node.2 failed: its process was over before its work: killed by SIGKILL",
    "zygote": "the process that all nodes are forked from is gone (killed by SIGKILL)",
    "fabric": "the fabric, which carries the packets, is gone",
}

IN_CI = {("node 2", "training"), ("node 2", "ending"), ("zygote", "starting"), ("fabric", "training")}
"""Chaos has the others, too, in some of its seeds."""


def stop_of(phase: str) -> dict[str, object]:
    """A run that ends by itself after a second, or never."""
    return {"time": "1s"} if phase == "ending" else dict(ENDLESS)


@pytest.mark.parametrize(
    ("victim", "phase"),
    [
        pytest.param(victim, phase, marks=[] if (victim, phase) in IN_CI else [pytest.mark.soaked])
        for victim in WORDS
        for phase in PHASES
    ],
)
def test_a_killed_process_ends_the_run_with_a_clear_word(victim: str, phase: str, scratch: ScratchRun) -> None:
    scratch.write_plan(stop=stop_of(phase))
    with scratch.start() as process:
        scratch.reach(phase, process)
        until(lambda: scratch.process(victim), process)
        found, namespaces = scratch.process(victim), scratch.namespaces()
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        until(lambda: not is_alive(found))
        if phase == "ending" and victim == "fabric":
            scratch.go_on()  # whichever of the two ends is noticed first
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (5 if phase == "starting" and victim != "node 2" else 6), said
    assert f"Error: {WORDS[victim]}" in said
    assert "Traceback" not in said
    scratch.assert_nothing_is_left(namespaces)
    over = records(scratch.run, None)[-1]
    assert isinstance(over, Over)
    assert over.reason == ("time" if phase == "ending" else "failed")
    summary = json.loads((scratch.run.path / "summary.json").read_text())
    assert summary["health"] != "valid" or victim == "node 2"
    if victim != "node 2":
        assert summary["health"] == "broken"
    if phase == "training":
        assert summary["finished"] == over.finished == (2 if victim == "node 2" else 0)


def test_a_killed_command_takes_with_it_what_hears_nobody(scratch: ScratchRun) -> None:
    """The zygote and one node are stopped: they cannot see that the command has ended."""
    scratch.write_plan(stop=dict(ENDLESS))
    with scratch.start() as process:
        scratch.reach("training", process)
        namespaces = scratch.namespaces()
        for name in ("zygote", "node 1"):
            found = scratch.process(name)
            assert found is not None
            os.kill(found.pid, signal.SIGSTOP)
        process.kill()
        process.communicate()
    scratch.assert_all_ended(namespaces)


@pytest.mark.parametrize(
    "phase", ["first", "training", *(pytest.param(each, marks=pytest.mark.soaked) for each in ("starting", "ending"))]
)
def test_a_killed_command_takes_its_run_with_it(phase: str, scratch: ScratchRun) -> None:
    """`first`: there is a record, and the fabric is being started."""
    scratch.write_plan(stop=stop_of(phase))
    with scratch.start() as process:
        if phase == "first":
            until(scratch.record, process)
        else:
            scratch.reach(phase, process)
        namespaces = scratch.namespaces()
        process.kill()
        process.communicate()
    scratch.assert_all_ended(namespaces)
    assert "left behind" in scratch.testbed("status", "long").output
    first = scratch.testbed("destroy", "long")
    assert first.exit_code == 0, first.output
    scratch.assert_nothing_is_left(namespaces)
    again = scratch.testbed("destroy", "long")
    assert (again.exit_code, "nothing is left" in again.stderr) == (0, True)
    assert scratch.testbed("collect", "long").exit_code in (2, 3, 8)


@pytest.mark.parametrize("victim", ["control", "fabric"])
def test_a_run_that_goes_on_by_itself_ends_with_its_processes(victim: str, scratch: ScratchRun) -> None:
    with scratch.start("--detach") as process:
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    found, namespaces = scratch.process(victim), scratch.namespaces()
    assert found is not None
    assert len(namespaces) == 4, "three nodes', and that of the process they are forked from"
    os.kill(found.pid, signal.SIGKILL)
    scratch.assert_all_ended(namespaces)
    if victim == "control":
        assert "left behind" in scratch.testbed("status", "long").output
        assert scratch.testbed("destroy", "--all").exit_code == 0
    else:
        assert WORDS[victim] in (scratch.run.path / "runtime" / "control.log").read_text()
        assert "failed" in scratch.testbed("status", "long").output
    scratch.assert_nothing_is_left(namespaces)


def test_a_command_that_is_killed_while_its_run_starts_by_itself(scratch: ScratchRun) -> None:
    """It is only who waits for the beginning."""
    with scratch.start("--detach") as process:
        until(lambda: scratch.process("zygote"), process)
        process.kill()
        process.communicate()
    until(lambda: scratch.phase() == "training")
    namespaces = scratch.namespaces()
    assert len(namespaces) == 4, "three nodes', and that of the process they are forked from"
    result = scratch.testbed("destroy", "long")
    assert (result.exit_code, "ended control, zygote, fabric, 3 nodes" in result.stderr) == (0, True), result.stderr
    scratch.assert_nothing_is_left(namespaces)
    assert set(scratch.last_words().values()) == {"interrupted"}


def test_destroy_touches_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    """Another process that has got the id since, one that a record only names, and a folder that it only claims."""
    marked = os.environ | {MARK: OURS}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=marked) as bystander:
        mine = process_record("zygote", bystander.pid)
        folder = tmp_path / "precious"
        (folder / "nodes").mkdir(parents=True)
        run = RunDirectory(tmp_path / "results" / "old")
        (run.path / "runtime").mkdir(parents=True)
        other = ProcessRecord(mine.name, mine.pid, mine.start_ticks - 1)
        (run.path / "runtime" / "processes.json").write_bytes(msgspec.json.encode(RunRecord(str(folder), [other])))
        assert not destroy(run).ended
        assert bystander.poll() is None
        assert folder.is_dir()
        for theirs in ("", "another"):
            (run.path / "runtime" / "processes.json").write_bytes(
                msgspec.json.encode(RunRecord(str(folder), [mine], mark=theirs))
            )
            removed = destroy(run)
            assert (removed.ended, removed.strangers) == ((), (bystander.pid,))
            assert bystander.poll() is None
        (run.path / "runtime" / "processes.json").write_bytes(
            msgspec.json.encode(RunRecord(str(folder), [mine], mark=OURS))
        )
        removed = destroy(run)
        assert (removed.ended, removed.strangers) == (("zygote",), ())
        assert bystander.wait() == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_record_in_another_user_s_folder_is_not_followed(scratch: ScratchRun) -> None:
    """Root's own process, named in a folder of another user's, who may have written anything."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as bystander:
        for each in ("nodes", "runtime"):
            (scratch.run.path / each).mkdir(parents=True)
        record = RunRecord("/nowhere", [process_record("control", bystander.pid)], mark="guessed")
        (scratch.run.path / "runtime" / "processes.json").write_bytes(msgspec.json.encode(record))
        for path in (scratch.run.path, *scratch.run.path.rglob("*")):
            os.chown(path, 65534, 65534)
        refused = scratch.testbed("destroy", "long")
        assert (refused.exit_code, "belongs to nobody" in refused.stderr) == (4, True), refused.stderr
        every = scratch.testbed("destroy", "--all")
        assert (every.exit_code, "left alone" in every.stderr) == (0, True), every.stderr
        forced = scratch.testbed("destroy", "long", "--force")
        assert (forced.exit_code, f"not of this run: process {bystander.pid}" in forced.stderr) == (0, True)
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize("paused", [False, True])
def test_a_run_whose_directory_is_removed_ends_and_says_so(paused: bool, scratch: ScratchRun) -> None:
    scratch.write_plan(stop=dict(ENDLESS))
    with scratch.start() as process:
        scratch.reach("training", process)
        namespaces = scratch.namespaces()
        if paused:
            assert scratch.testbed("fault", "pause", "long", "node.1").exit_code == 0
        while scratch.run.path.exists():  # files are still being made in it
            shutil.rmtree(scratch.run.path, ignore_errors=True)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 6, said
    assert "was removed or renamed while the run went on" in said
    assert ("Traceback" in said, "testbed collect" in said) == (False, False), said
    scratch.assert_nothing_is_left(namespaces)


def test_destroy_removes_the_sockets_of_a_run_that_had_only_begun_to_make_them(tmp_path: Path) -> None:
    for number, parts in enumerate([(), ("nodes",), ("nodes/0", "slots")]):
        folder = Path(tempfile.mkdtemp(prefix="testbed-"))
        for part in parts:
            (folder / part).mkdir(parents=True)
        run = RunDirectory(tmp_path / str(number))
        (run.path / "runtime").mkdir(parents=True)
        (run.path / "runtime" / "processes.json").write_bytes(msgspec.json.encode(RunRecord(str(folder), [])))
        (run.path / "engine").mkdir()
        halves = [
            run.path / each for each in ("runtime/processes.part", "engine/.health.json.tmp", ".summary.json.tmp")
        ]
        for half in halves:
            half.touch()
        destroy(run)
        assert not folder.exists()
        assert not any(half.exists() for half in halves)


@pytest.mark.parametrize("content", ["file", "other"])
def test_destroy_leaves_a_folder_that_only_looks_like_sockets(content: str, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="testbed-"))
    (folder / content).mkdir()
    run = RunDirectory(tmp_path / "run")
    (run.path / "runtime").mkdir(parents=True)
    (run.path / "runtime" / "processes.json").write_bytes(msgspec.json.encode(RunRecord(str(folder), [])))
    destroy(run)
    assert folder.exists()
    shutil.rmtree(folder)
