"""The fabric's own death always counts, however late anybody notices, and the run's own end of it never does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.control import control as control_module
from testbed.control.control import Control
from testbed.engines.fabric.start import start_fabric
from testbed.errors import ExitCode
from testbed.records import End, Failure, Over
from testbed.rundir import create_run
from testbed.runtimes.processes import watches
from testbed.runtimes.processes.engine import FabricEngine
from testbed.runtimes.processes.zygote_client import ZygoteClient
from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.process_records import Places, make_places, process_record
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = make_places(create_run(tmp_path, "run"))
    yield made
    made.remove()


def ended(places: Places, before: Callable[[FabricEngine], None]) -> list[str]:
    """What is reported if something happens to a fabric that was not checked before its end."""

    async def body() -> list[str]:
        told: list[str] = []
        engine = FabricEngine(locally(plan_of(star(2))), places, lambda _: None, told.append, start_fabric)
        await engine.begin(time.monotonic())
        before(engine)
        engine.end()
        engine.end()
        engine.stop()
        await asyncio.sleep(0)
        return told

    return asyncio.run(body())


def killed_by(number: signal.Signals, *, seen: bool) -> Callable[[FabricEngine], None]:
    def before(engine: FabricEngine) -> None:
        assert engine.pid is not None
        record = process_record("fabric", engine.pid)
        os.kill(engine.pid, number)
        while seen and is_alive(record):
            time.sleep(0.005)

    return before


@pytest.mark.processes
def test_it_is_ended_by_the_run_and_nobody_else(places: Places) -> None:
    assert ended(places, lambda _: None) == []


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGTERM, "exit status 0")]
)
@pytest.mark.processes
def test_whoever_else_ends_it_is_told_of(number: signal.Signals, words: str, places: Places) -> None:
    (told,) = ended(places, killed_by(number, seen=True))
    assert told.startswith(f"the fabric, which carries the packets, is gone ({words}); see ")


@pytest.mark.processes
def test_a_kill_at_the_same_moment_counts(places: Places) -> None:
    (told,) = ended(places, killed_by(signal.SIGKILL, seen=False))
    assert "killed by SIGKILL" in told


@needs_network
def test_a_fabric_that_dies_after_the_last_node_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = FabricEngine.end

    def kill_and_end(self: FabricEngine) -> None:
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)
        end(self)

    monkeypatch.setattr(FabricEngine, "end", kill_and_end)
    directory, outcome = run(plan_of(star(3)), tmp_path)
    assert (outcome.exit_code, outcome.reason, outcome.failures) == (ExitCode.NODE_FAILED, "failed", ())
    (told,) = outcome.broken
    assert "the fabric, which carries the packets, is gone (killed by SIGKILL)" in told
    assert isinstance(records(directory, None)[-1], Over)
    summary = json.loads((directory.path / "summary.json").read_text())
    assert (summary["broken"], summary["health"]) == ([told], "broken")
    assert summary["finished"] == 3  # they were done before


BROKEN = "broken on purpose"
HURRIES: dict[str, tuple[Callable[[Control], None], ExitCode, str]] = {
    "something breaks": (lambda control: control.break_down(BROKEN), ExitCode.NODE_FAILED, "time"),
    "Ctrl-C": (lambda control: control.stop("interrupted"), ExitCode.INTERRUPTED, "interrupted"),
}


@needs_network
@pytest.mark.parametrize("why", HURRIES)
def test_nobody_waits_long_for_a_node_that_hangs_at_the_end(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patience for the last of the work would be a minute: who presses Ctrl-C then means it."""
    hurry, exit_code, reason = HURRIES[why]
    monkeypatch.setattr(watches, "_GRACE_S", 1.0)
    source = tmp_path / "hung.py"
    source.write_text(
        "import time\nfrom testbed.node.algorithms.dpsgd import DPSGD\n\n\n"
        "class Hung(DPSGD):\n    async def run(self, node):\n        try:\n            await super().run(node)\n"
        "        finally:\n            if node.rank == 1:\n                time.sleep(1000)\n"
    )
    begun: list[float] = []
    stop = Control.stop

    def stop_and_hurry(self: Control, reason: str) -> None:
        stop(self, reason)
        if not begun:
            begun.append(time.monotonic())
            asyncio.get_running_loop().call_later(0.5, hurry, self)

    monkeypatch.setattr(Control, "stop", stop_and_hurry)
    settings = {"stop": {"time": "300ms"}, "algorithm": {"name": f"{source}:Hung"}}
    _, outcome = run(plan_of(star(2), **settings), tmp_path)
    assert 1.4 < time.monotonic() - begun[0] < 30.0
    assert (outcome.exit_code, outcome.reason, outcome.failures) == (exit_code, reason, ())
    assert outcome.broken == ((BROKEN,) if exit_code is ExitCode.NODE_FAILED else ())


@needs_network
def test_nobody_waits_for_ever_for_one_that_should_tell_of_deaths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes are forked from one process: it hangs while they work, and they end well."""
    monkeypatch.setattr(watches, "_GRACE_S", 1.0)
    monkeypatch.setattr(watches, "_LAST_WORK_S", 1.0)
    monkeypatch.setattr(watches, "_LAST_WORK_EACH_S", 0.0)
    monkeypatch.setattr(control_module, "_EVALUATING_S", 0.5)
    parents: list[int] = []
    is_warm, begin = ZygoteClient.is_warm, Control.begin

    async def and_note(self: ZygoteClient) -> Failure | None:
        parents.extend(self.pids)
        return await is_warm(self)

    def and_hang(self: Control) -> float:
        for pid in parents:
            os.kill(pid, signal.SIGSTOP)
        return begin(self)

    monkeypatch.setattr(ZygoteClient, "is_warm", and_note)
    monkeypatch.setattr(Control, "begin", and_hang)
    begun_s = time.monotonic()
    directory, outcome = run(plan_of(star(2)), tmp_path)
    assert time.monotonic() - begun_s < 45.0
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 2, ())
    for name in ("node.0", "node.1"):
        last = records(directory, name)[-1]
        assert isinstance(last, End)
        assert last.reason == "finished"
