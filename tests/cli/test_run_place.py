"""Names of runs: who keeps one, who makes room by itself, who is replaced, and what is never touched."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.control.health import FILE
from testbed.control.log import ControlLog, ended_before_start
from testbed.errors import UsageProblem
from testbed.journal import Journal
from testbed.plan.files import write_plan
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord, Count, End, Event, Over
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes import run_place as run_place_module
from testbed.runtimes.containers.container_paths import sockets_of
from testbed.runtimes.run_place import Way, run_place, way_to
from testbed.runtimes.tracking.ownership import MARK, new_mark
from testbed.runtimes.tracking.process_records import PREFIX, Places, ProcessRecord, process_record
from tests.plan.test_make import nodes, plan_of

OURS = new_mark()

DEAD = ProcessRecord("control", 2**22 + 1, 1)
"""No process has such an id."""
LOCAL, SIM, DOCKER = "local", "sim", "docker"


def planned(runtime: str = SIM, name: str = "r") -> RunPlan:
    return plan_of(nodes(2)).model_copy(update={"runtime": runtime, "run_id": name})


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A directory as `deploy` makes it, before anything was started."""
    made = create_run(tmp_path, "r")
    write_plan(made, planned())
    return made


def log(run: RunDirectory, *records: AnyRecord) -> None:
    written = ControlLog(run.events)
    for each in records:
        written.write(each)
    written.close()


def journal(run: RunDirectory, node: str, *records: AnyRecord) -> None:
    written = Journal(run.node(node).journal)
    for each in records:
        written.write(each)
    written.close()


def end(t: float) -> End:
    return End(t, "failed", 0, 0, Count(), Count())


def take(results: Path, *, overwrite: bool = False, runtime: str = SIM) -> tuple[RunDirectory, list[str]]:
    said: list[str] = []
    with run_place(results, planned(runtime), overwrite=overwrite, say=said.append) as taken:
        return taken, said


def refused(results: Path, *, overwrite: bool = False) -> UsageProblem:
    """And nothing has changed."""
    before = sorted(results.rglob("*"))
    with pytest.raises(UsageProblem) as problem:
        take(results, overwrite=overwrite)
    assert sorted(results.rglob("*")) == before
    return problem.value


@contextmanager
def record(run: RunDirectory, *processes: ProcessRecord) -> Iterator[Path]:
    """What a run of processes leaves that was killed, or has while it goes on; gives its folder of sockets."""
    sockets = Path(tempfile.mkdtemp(prefix=PREFIX))
    places = Places(run, sockets, OURS)
    places.runtime.mkdir(exist_ok=True)
    places.write_record(processes)
    try:
        yield sockets
    finally:
        if sockets.exists():
            sockets.rmdir()


def test_a_run_that_never_began_makes_room_and_what_it_left_can_be_read(run: RunDirectory) -> None:
    log(run, Event(0.0, "joined", node="a.0"), Over(0.0, "failed", finished=0, failed=1))
    journal(run, "a.0", end(0.0))
    (run.path / FILE).write_text("{}")
    (run.path / "runtime").mkdir()
    (run.path / "runtime" / "zygote.log").write_text("why it did not start")
    taken, said = take(run.path.parent)
    assert taken.path == run.path
    assert said == [f"r never began the last time; what it left is in {run.path}/failed-1"]
    assert (run.path / "failed-1" / "runtime" / "zygote.log").read_text() == "why it did not start"
    assert {each.name for each in (run.path / "failed-1").iterdir()} == {
        *("plan.json", "topology.yaml", "events.jsonl", "nodes", "summary.json", "runtime")
    }
    assert sorted(each.name for each in run.path.iterdir()) == ["failed-1", "nodes", "plan.json", "topology.yaml"]
    assert take(run.path.parent)[1] == [f"r never began the last time; what it left is in {run.path}/failed-2"]
    assert (run.path / "failed-1" / "summary.json").exists(), "what failed before stays what it was"


@pytest.mark.parametrize("reason", ["failed", "interrupted"])
@pytest.mark.parametrize("last", [0.0, 0.001])
def test_it_never_began_where_no_time_has_passed(last: float, reason: str, run: RunDirectory) -> None:
    log(run, Over(last, reason, finished=0, failed=1))
    if last:
        assert "exists already" in refused(run.path.parent).message
    else:
        assert take(run.path.parent)[1]


def test_nodes_know_more_than_a_control_that_was_killed(run: RunDirectory) -> None:
    log(run, Event(0.0, "joined", node="a.0"))
    journal(run, "a.1", Event(0.25, "anything"))
    with run.node("a.1").journal.open("ab") as torn:
        torn.write(b'{"type":"event","t":0.')
    problem = refused(run.path.parent)
    assert problem.message == f"{run.path} exists already"
    assert problem.hint == "give another --run-id, replace that run with --overwrite, or remove it"


def test_a_run_that_has_ended_well_keeps_its_name_however_short_it_was(run: RunDirectory) -> None:
    log(run, Over(0.0, "finished", finished=2, failed=0))
    assert "exists already" in refused(run.path.parent).message


def test_what_cannot_be_read_may_have_begun(run: RunDirectory) -> None:
    run.node("a.0").journal.mkdir()
    assert "exists already" in refused(run.path.parent).message


@pytest.mark.timeout(20)
def test_what_a_learner_put_in_place_of_its_journal_is_not_read(run: RunDirectory) -> None:
    """At a pipe it would be waited for ever, and a link could lead to any file."""
    os.mkfifo(run.node("a.0").journal)
    assert "exists already" in refused(run.path.parent).message
    run.node("a.0").journal.unlink()
    (run.path / "elsewhere.jsonl").write_text('{"t": 0.0}\n')
    run.node("a.0").journal.symlink_to(run.path / "elsewhere.jsonl")
    assert not ended_before_start(run)


@pytest.mark.processes
def test_one_that_was_killed_before_it_began_is_cleaned_up_after(run: RunDirectory) -> None:
    """It could not say that it is over, and has left its folder of sockets."""
    write_plan(run, planned(LOCAL))
    marked = os.environ | {MARK: OURS}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=marked) as orphan:
        with record(run, DEAD, process_record("zygote", orphan.pid)) as sockets:
            assert way_to(run.path, overwrite=False) is Way.FREED
            assert sockets.exists(), "to ask changes nothing"
            take(run.path.parent)
            assert not sockets.exists()
        assert orphan.wait(10) == -signal.SIGKILL, "no process leads it any more"
    assert (run.path / "failed-1" / "plan.json").exists()
    assert not (run.path / "runtime").exists()


def test_one_that_was_killed_on_its_way_must_be_destroyed_first(run: RunDirectory) -> None:
    write_plan(run, planned(LOCAL))
    journal(run, "a.0", Event(1.0, "anything"))
    with record(run, DEAD):
        for overwrite in (False, True):
            problem = refused(run.path.parent, overwrite=overwrite)
            assert "something of that run is left" in problem.message
            assert f"`testbed destroy {run.path}`" in problem.hint


def test_one_that_is_starting_now_is_left_alone(run: RunDirectory) -> None:
    """It has not begun either."""
    write_plan(run, planned(LOCAL))
    with record(run, process_record("control", os.getpid())):
        for overwrite in (False, True):
            problem = refused(run.path.parent, overwrite=overwrite)
            assert "that run goes on" in problem.message
            assert f"`testbed destroy {run.path}` ends it" in problem.hint


def test_virtual_time_has_no_processes_but_whoever_runs_it_holds_its_directory(tmp_path: Path) -> None:
    with run_place(tmp_path, planned(), overwrite=False, say=print) as run:
        log(run, Over(5.0, "finished", finished=2, failed=0))  # even if it says so
        for overwrite in (False, True):
            assert "that run goes on" in refused(tmp_path, overwrite=overwrite).message
    assert take(tmp_path, overwrite=True)[1] == [f"replacing the run in {run.path}"]


@pytest.mark.processes
def test_a_killed_command_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys; from testbed.runtimes.run_place import run_place;"
        "from testbed.plan.files import read_plan; plan = read_plan(pathlib.Path(sys.argv[2]));"
        "entered = run_place(pathlib.Path(sys.argv[1]), plan, overwrite=False, say=print);"
        "entered.__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    source = create_run(tmp_path / "source", "r")
    write_plan(source, planned())
    words = [sys.executable, "-c", code, str(tmp_path / "results"), str(source.plan)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "results" / "r" / "plan.json").exists()
    assert take(tmp_path / "results")[1]


def test_where_nothing_can_be_held_only_a_last_word_is_believed(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", denied)
    for overwrite in (False, True):
        assert "it is unknown here whether that run goes on" in refused(run.path.parent, overwrite=overwrite).message
    log(run, Over(0.0, "interrupted", finished=0, failed=0))
    assert take(run.path.parent)[1]


def test_containers_that_may_be_there_are_left_alone(run: RunDirectory) -> None:
    """Compose's, too: their sockets are there before they are."""
    write_plan(run, planned(DOCKER))
    sockets_of(run).mkdir(parents=True)
    for overwrite in (False, True):
        assert "something of that run is left" in refused(run.path.parent, overwrite=overwrite).message


def test_overwrite_replaces_all_of_a_run_and_nothing_else(run: RunDirectory) -> None:
    log(run, Over(9.0, "finished", finished=2, failed=0))
    (run.path / "failed-1").mkdir()
    (run.path / "failed-1" / "plan.json").write_text("{}")
    (run.path / "notes.txt").write_text("mine")
    problem = refused(run.path.parent, overwrite=True)
    assert "notes.txt in it is not the run's" in problem.message
    with pytest.raises(UsageProblem):
        way_to(run.path, overwrite=True)
    (run.path / "notes.txt").rename(run.path.parent / "notes.txt")
    _, said = take(run.path.parent, overwrite=True)
    assert said == [f"replacing the run in {run.path}"]
    assert sorted(each.name for each in run.path.iterdir()) == ["nodes", "plan.json", "topology.yaml"]
    assert (run.path.parent / "notes.txt").read_text() == "mine"


def test_what_comes_into_a_directory_that_is_being_replaced_is_not_removed(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(run, Over(9.0, "finished", finished=2, failed=0))

    def overtaken(path: Path, *, overwrite: bool, is_held: bool) -> Way:
        way = way_of(path, overwrite=overwrite, is_held=is_held)
        (path / "notes.txt").write_text("mine")
        return way

    way_of = run_place_module._way
    monkeypatch.setattr(run_place_module, "_way", overtaken)
    with pytest.raises(UsageProblem, match=r"notes\.txt in it is not the run's"):
        take(run.path.parent, overwrite=True)
    assert (run.path / "notes.txt").read_text() == "mine"
    assert run.events.exists()


def test_what_is_no_run_directory_is_never_touched(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    (folder / "r" / "nodes").mkdir(parents=True)
    (folder / "r" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        assert f"{folder}/r exists already" in refused(folder, overwrite=overwrite).message
    (folder / "r").rename(elsewhere)
    write_plan(RunDirectory(elsewhere), planned())
    (folder / "r").symlink_to(elsewhere)
    assert "is no run directory" in refused(folder, overwrite=True).message
    (folder / "r").unlink()
    (folder / "r").write_text("a file")
    assert "is no run directory" in refused(folder, overwrite=True).message


def test_a_command_that_was_killed_while_it_made_the_directory_is_no_obstacle(tmp_path: Path) -> None:
    create_run(tmp_path, "r")
    assert take(tmp_path)[1]


@pytest.mark.parametrize("overwrite", [False, True])
def test_nor_is_one_that_was_killed_while_it_made_room(overwrite: bool, tmp_path: Path) -> None:
    """The plan had gone, and `nodes` was not there yet."""
    (tmp_path / "r").mkdir()
    assert take(tmp_path, overwrite=overwrite)[1] == []
    shutil.rmtree(tmp_path / "r")
    (tmp_path / "r" / "failed-3").mkdir(parents=True)
    assert take(tmp_path, overwrite=overwrite)[1] == []
    assert sorted(each.name for each in (tmp_path / "r").iterdir()) == [
        "failed-3",
        "nodes",
        "plan.json",
        "topology.yaml",
    ]


# -- as people see it --------------------------------------------------------------------------------------------------

TOPOLOGY = "services: {a: {replicas: 4}}\nbridges: [r]\nlinks: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]\n"


def deploy(*arguments: str) -> Result:
    fixed = ("--data", "digits", "--rounds", "1", "--workers", "0", "--run-id", "one")
    return CliRunner().invoke(main, ["deploy", "t.yaml", *fixed, *arguments])


def test_overwrite_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(TOPOLOGY)
    assert deploy().exit_code == 0
    first = Path("results/one/events.jsonl").read_bytes()
    again = deploy("--seed", "2")
    assert (again.exit_code, "results/one exists already" in again.stderr) == (2, True)
    assert "preparing" not in again.stderr
    assert deploy("--seed", "2", "--overwrite", "--dry-run").exit_code == 0
    assert deploy("--seed", "2", "--overwrite", "--set", "compute.mode=measured").exit_code == 2, "it cannot be run"
    assert Path("results/one/events.jsonl").read_bytes() == first, "kept until another can take its place"
    words = ["deploy", "--plan", "results/one/plan.json", "--run-id", "one", "--overwrite", "--workers", "0"]
    own = CliRunner().invoke(main, words)
    assert (own.exit_code, "replacing the run in results/one" in own.stderr) == (0, True), own.output
    assert Path("results/one/events.jsonl").read_bytes() == first
    assert CliRunner().invoke(main, ["collect", "results"]).exit_code == 0
    nameless = CliRunner().invoke(main, ["deploy", "t.yaml", "--overwrite"])
    assert (nameless.exit_code, "--run-id" in nameless.stderr) == (2, True)
