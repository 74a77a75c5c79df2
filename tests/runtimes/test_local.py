"""Runs of real processes: what is refused, what fails, and what is left afterwards."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from testbed.control.log import ControlLog
from testbed.engines.fabric.sockets import node_socket
from testbed.errors import ExitCode, PreflightRefused
from testbed.journal import CannotWrite
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord, End, Event, Round
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.needs import Need, needs_of
from testbed.runtimes.processes import local_backend
from testbed.runtimes.processes import run as real
from testbed.runtimes.processes.engine import Engine, start_engine
from testbed.runtimes.processes.loopback import LoopbackBlock, on_loopback
from testbed.runtimes.processes.run import RealRun
from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.proc_stat import stat_of
from testbed.runtimes.tracking.process_records import Places, make_places, process_record, read_record
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star


@needs_network
def test_a_node_that_gets_no_network_lets_nobody_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_a_door(plan: RunPlan, places: Places, *told: object) -> Engine:
        engine = start_engine(plan, places, *told)  # type: ignore[arg-type]
        node_socket(places.sockets, 2).unlink()
        return engine

    monkeypatch.setattr(local_backend, "start_engine", without_a_door)
    with pytest.raises(PreflightRefused, match="handing the device to the fabric was denied"):
        run(plan_of(star(4)), tmp_path)
    assert not list(tmp_path.glob("run/nodes/*/journal.jsonl"))
    assert read_record(RunDirectory(tmp_path / "run")) is None


@needs_network
def test_a_model_that_cannot_be_made_is_told_as_everywhere(tmp_path: Path) -> None:
    source = tmp_path / "wrong.py"
    source.write_text("def model():\n    raise ValueError('on purpose')\n")
    directory, outcome = run(plan_of(star(4), model={"name": f"{source}:model"}), tmp_path)
    assert outcome.reason == "failed"
    (failed,) = outcome.failures
    assert (failed.node, failed.failure.file) == ("node.0", "wrong.py")
    for rank in range(4):
        assert isinstance(records(directory, f"node.{rank}")[-1], End)


@needs_network
def test_a_node_that_ends_itself_is_a_failure(tmp_path: Path) -> None:
    source = tmp_path / "gone.py"
    source.write_text(
        "import os\nfrom testbed.node.algorithm import Algorithm\n\n\n"
        "class Gone(Algorithm):\n    async def run(self, node):\n        await node.train()\n"
        "        if node.rank == 1:\n            os._exit(3)\n        await node.sleep(1000)\n"
    )
    _, outcome = run(plan_of(star(4), algorithm={"name": f"{source}:Gone"}), tmp_path)
    (failed,) = outcome.failures
    assert failed.node == "node.1"
    assert "its process was over before its work: exit status 3" in failed.failure.message


NO_MORE = """
import errno, os, sys
from testbed.node.algorithms.dpsgd import DPSGD as Mine
fork, left = os.fork, [{left}]
def deny():
    left[0] -= 1
    if left[0] < 0:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
if "zygote" in sys.argv[0]:
    os.fork = deny
"""


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.processes
def test_where_no_more_processes_can_be_made_nothing_begins(left: int, tmp_path: Path) -> None:
    """`left`: so many more can be."""
    source = tmp_path / "mine.py"
    source.write_text(NO_MORE.format(left=left))
    _, outcome = run(plan_of(star(3), algorithm={"name": f"{source}:Mine"}), tmp_path, "none")
    assert outcome.broken == (f"cannot start the process of node.{left}: {os.strerror(errno.EAGAIN)}",)
    assert (outcome.exit_code, outcome.failures) == (ExitCode.NOT_STARTED, ())
    assert read_record(RunDirectory(tmp_path / "run")) is None


@pytest.mark.processes
def test_an_average_that_cannot_be_tried_is_lost_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(NO_MORE.format(left=3))
    settings = {"algorithm": {"name": f"{source}:Mine"}, "stop": {"rounds": 3}, "evaluation": {"every": 1}}
    directory, outcome = run(plan_of(star(3), **settings), tmp_path, "none")
    assert (outcome.reason, outcome.finished, outcome.broken) == ("finished", 3, ())
    lost = [each.detail for each in records(directory, None) if isinstance(each, Event) and each.what == "average-lost"]
    why = f"the process that evaluates it could not be started: {os.strerror(errno.EAGAIN)}"
    assert lost == [f"round {number}: {why}" for number in range(3)]


@needs_network
def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    async def both() -> list[tuple[RunDirectory, int]]:
        def one(name: str) -> tuple[RunDirectory, int]:
            (tmp_path / name).mkdir()
            directory, outcome = run(plan_of(star(4), stop={"rounds": 3}), tmp_path / name, "none")
            return directory, outcome.finished

        return list(await asyncio.gather(asyncio.to_thread(one, "a"), asyncio.to_thread(one, "b")))

    for directory, finished in asyncio.run(both()):
        assert finished == 4
        assert all(
            sum(isinstance(each, Round) for each in records(directory, f"node.{rank}")) == 3 for rank in range(4)
        )


def test_a_run_without_an_engine_has_addresses_of_its_own() -> None:
    with LoopbackBlock(wanted=True) as one, LoopbackBlock(wanted=True) as other:
        assert len({one.number, other.number, 0}) == 3
        assert abs(one.number - other.number) >= 2
    assert on_loopback("198.18.3.4", 20) == "127.20.3.4"
    assert on_loopback("198.19.3.4", 20) == "127.21.3.4"
    with LoopbackBlock(wanted=False) as none:
        assert none.number == 0


def test_a_process_is_known_by_its_start_too(tmp_path: Path) -> None:
    mine = process_record("me", os.getpid())
    assert is_alive(mine)
    assert not is_alive(type(mine)(mine.name, mine.pid, mine.start_ticks + 1))
    assert stat_of(2**22 + 1) is None
    places = make_places(create_run(tmp_path, "run"))
    record = read_record(places.run)
    assert record is not None
    assert [each.name for each in record.processes] == ["control"]
    assert (places.sockets.stat().st_mode & 0o777) == 0o700
    places.remove()
    assert read_record(places.run) is None
    assert not places.sockets.exists()


@pytest.mark.processes
def test_a_dead_process_that_nobody_has_asked_for_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        there = process_record("it", process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert stat_of(process.pid) is not None
        assert not is_alive(there)


def test_what_a_run_needs_grows_with_its_nodes() -> None:
    small, large = (list(needs_of(locally(plan_of(star(nodes))))) for nodes in (4, 64))
    assert not any(need.is_short for need in small)
    assert [need.what for need in small][:3] == ["memory", "open files", "open files of a node"]
    assert int(large[1].needed) - int(small[1].needed) == 120


def test_a_node_needs_files_for_all_whom_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_a_node(**settings: Any) -> Need:
        plan = locally(plan_of(star(12), **settings))
        return next(need for need in needs_of(plan) if need.what == "open files of a node")

    ring, full = (of_a_node(overlay={"kind": kind}) for kind in ("ring", "full"))
    changing = of_a_node(overlay={"kind": "regular", "degree": 2, "dynamic": True})
    served = of_a_node(algorithm={"name": "fedavg"})
    assert int(full.needed) - int(ring.needed) == 9 * 4
    assert full.needed == changing.needed == served.needed
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, int(ring.needed)))
    assert [of_a_node(overlay={"kind": kind}).is_short for kind in ("ring", "full")] == [False, True]


@pytest.mark.processes
def test_a_node_may_have_all_its_files_open(tmp_path: Path) -> None:
    """Two hundred and fifty neighbours are more than a shell's usual limit allows."""
    source = tmp_path / "mine.py"
    source.write_text(
        "import resource\nfrom testbed.node.algorithms.dpsgd import DPSGD\n\n\nclass Mine(DPSGD):\n"
        "    async def run(self, node):\n        node.note('files', str(resource.getrlimit(resource.RLIMIT_NOFILE)))\n"
        "        await super().run(node)\n"
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        settings = {"algorithm": {"name": f"{source}:Mine"}, "stop": {"rounds": 1}}
        directory, outcome = run(plan_of(star(2), **settings), tmp_path, "none")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert outcome.finished == 2
    told = [each.detail for each in records(directory, "node.1") if isinstance(each, Event) and each.what == "files"]
    assert told == [str((hard, hard))]


def test_a_log_that_cannot_be_opened_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (tmp_path / "run" / "events.jsonl").mkdir(parents=True)
    plan = locally(plan_of(star(2)))
    with pytest.raises(CannotWrite, match=r"events\.jsonl"):
        RealRun(plan, RunDirectory(tmp_path / "run"), local_backend.LocalBackend()).run()
    assert read_record(RunDirectory(tmp_path / "run")) is None
    assert list(temporary.iterdir()) == []


@needs_network
@pytest.mark.parametrize(
    ("what", "code"),
    [("joined", ExitCode.NOT_STARTED), ("average", ExitCode.NODE_FAILED), ("over", ExitCode.NODE_FAILED)],
)
def test_a_log_that_cannot_be_written_ends_the_run(
    what: str, code: ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the start barrier, or after it; where there is room for it, the summary says why."""

    class Full(ControlLog):
        def write(self, record: AnyRecord) -> None:
            if what in (record.what if isinstance(record, Event) else "", type(record).__name__.lower()):
                raise CannotWrite("the disk is full")
            super().write(record)

    monkeypatch.setattr(real, "ControlLog", Full)
    directory, outcome = run(plan_of(star(4)), tmp_path)
    assert outcome.exit_code is code
    assert outcome.broken == ("the disk is full",)
    summary = json.loads((directory.path / "summary.json").read_text())
    assert (summary["health"], summary["reason"], summary["broken"]) == ("broken", "failed", ["the disk is full"])
    assert read_record(directory) is None


@needs_network
def test_a_summary_without_room_breaks_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> NoReturn:
        raise CannotWrite("cannot write summary.json: no room")

    monkeypatch.setattr(real, "write_summary", full)
    _, outcome = run(plan_of(star(2)), tmp_path)
    assert outcome.exit_code is ExitCode.NODE_FAILED
    assert outcome.broken == ("cannot write summary.json: no room",)
