"""A node that is paused while it computes keeps no slot: on a machine of two cores two would starve all others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.control import progress
from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.node.compute_slots import ComputeSlots, holders
from testbed.plan.files import write_plan
from testbed.records import Event
from testbed.rundir import create_run
from testbed.runtimes.processes import local_backend
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.node_actions import NodeActions
from testbed.runtimes.processes.run import RealRun
from testbed.runtimes.tracking.proc_stat import stands_still, stat_of
from tests.runtimes.contexts import context_of
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.scratch_run import until
from tests.runtimes.sim_runs import plan_of, records, star
from tests.runtimes.unforked import Unforked

PAUSED_S = 3.0
CORES = 2
TIMES = 10
COMPUTES_S, RESTS_S = 0.03, 0.002


@contextmanager
def learner(slots: Path, favourite: int) -> Iterator[int]:
    """A process that computes nearly always."""
    pid = os.fork()
    if not pid:
        try:
            own = ComputeSlots(slots, CORES, favourite)
            while True:
                with own.one():
                    time.sleep(COMPUTES_S)
                time.sleep(RESTS_S)
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def is_stopped(pid: int) -> bool:
    found = stat_of(pid)
    assert found is not None
    return found.state == "T"


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this kernel does not say who holds a lock")
def test_two_that_are_paused_leave_both_slots_to_the_others(tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    slots.mkdir()
    mine = ComputeSlots(slots, CORES, 0)

    async def body(pids: tuple[int, int]) -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(2)), log)
        for rank, pid in enumerate(pids):
            control.started(rank, pid)
        actions = NodeActions(
            context_of(plan_of(star(2)), control, log, NoEngine(), Unforked(control.nodes.pid_of, slots))
        )
        for _ in range(TIMES):
            await actions.happen("pause", (0, 1), 0.0)
            until(lambda: all(is_stopped(pid) for pid in pids))
            assert holders(slots) == set()
            with mine.one_if_free() as is_free:
                assert is_free
            await actions.happen("resume", (0, 1), 0.0)
            until(lambda: holders(slots) == set(pids))
        log.close()

    with learner(slots, 0) as one, learner(slots, 1) as other:
        until(lambda: holders(slots) == {one, other})
        asyncio.run(body((one, other)))
    mine.close()


def test_a_process_stands_still_when_all_its_threads_do() -> None:
    pid = os.fork()
    if not pid:
        threading.Thread(target=time.sleep, args=(60,)).start()
        time.sleep(60)
        os._exit(1)
    try:
        until(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) == 2)
        assert not stands_still(pid)
        os.kill(pid, signal.SIGSTOP)
        until(lambda: stands_still(pid))
        os.kill(pid, signal.SIGCONT)
        until(lambda: not stands_still(pid))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert stands_still(pid)  # there is none any more


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this kernel does not say who holds a lock")
def test_one_that_begins_to_compute_while_the_signal_is_on_its_way_keeps_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes its time to stop a process; here so long that this one has found a slot meanwhile."""
    go, tell = os.pipe()
    pid = os.fork()
    if not pid:
        slots = ComputeSlots(tmp_path, 1, 0)
        os.read(go, 1)
        with slots.one():
            time.sleep(0.3)
        time.sleep(60)
        os._exit(1)

    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(2)), log)
        control.started(0, pid)
        nodes = Unforked(control.nodes.pid_of, tmp_path)
        actions = NodeActions(context_of(plan_of(star(2)), control, log, NoEngine(), nodes))
        at_once = nodes.signal

        def late(rank: int, number: signal.Signals) -> None:
            def stop() -> None:
                os.write(tell, b"x")
                until(lambda: holders(tmp_path) == {pid})
                at_once(rank, number)

            monkeypatch.setattr(nodes, "signal", at_once)
            asyncio.get_running_loop().call_later(0.05, stop)

        monkeypatch.setattr(nodes, "signal", late)
        await actions.happen("pause", (0,), 0.0)
        await asyncio.sleep(0.1)
        until(lambda: is_stopped(pid))
        assert holders(tmp_path) == set()
        log.close()

    try:
        asyncio.run(body())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(go)
        os.close(tell)
    assert "slot-kept" not in (tmp_path / "events.jsonl").read_text()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this kernel does not say who holds a lock")
def test_one_that_waits_for_a_slot_is_not_paused_at_the_head_of_those_who_wait(tmp_path: Path) -> None:
    """However long those compute that have them all."""
    taken, tell_taken = os.pipe()
    pid = os.fork()
    if not pid:
        own = ComputeSlots(tmp_path, 1, 0)
        signal.signal(signal.SIGCONT, lambda *_: own.step_aside())
        os.read(taken, 1)
        with own.one():
            os._exit(1)

    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(2)), log)
        control.started(0, pid)
        actions = NodeActions(
            context_of(plan_of(star(2)), control, log, NoEngine(), Unforked(control.nodes.pid_of, tmp_path))
        )
        await actions.happen("pause", (0,), 0.0)
        until(lambda: is_stopped(pid))
        assert holders(tmp_path) == {os.getpid()}
        log.close()

    mine = ComputeSlots(tmp_path, 1, 0)
    try:
        with mine.one():
            os.write(tell_taken, b"t")
            until(lambda: holders(tmp_path) == {os.getpid(), pid})
            asyncio.run(body())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        mine.close()
        os.close(taken)
        os.close(tell_taken)
    assert "slot-kept" not in (tmp_path / "events.jsonl").read_text()


def test_one_that_cannot_be_paused_in_time_holds_up_nobody_for_long_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: the kernel says of all of them that they compute."""
    pids = []
    for _ in range(6):
        pid = os.fork()
        if not pid:
            while True:
                time.sleep(60)
        pids.append(pid)
    monkeypatch.setattr(local_backend, "_ATTEMPTS_S", 0.3)
    monkeypatch.setattr(local_backend, "holders", lambda _: set(pids[1:]))

    async def body() -> float:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(6)), log)
        for rank, pid in enumerate(pids):
            control.started(rank, pid)
        actions = NodeActions(
            context_of(plan_of(star(6)), control, log, NoEngine(), Unforked(control.nodes.pid_of, tmp_path))
        )
        begun_s = time.monotonic()
        await actions.happen("pause", range(6), 0.0)
        took_s = time.monotonic() - begun_s
        until(lambda: all(is_stopped(pid) for pid in pids))
        log.close()
        return took_s

    try:
        assert 0.3 <= asyncio.run(body()) < 5 * 0.3
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    told = [json.loads(each) for each in (tmp_path / "events.jsonl").read_text().splitlines()]
    kept = [each["node"] for each in told if each["what"] == "slot-kept"]
    assert kept == [f"node.{rank}" for rank in range(1, 6)]


@needs_network
def test_whoever_is_paused_is_not_late(tmp_path: Path) -> None:
    events = f"  - {{at: 500ms, node: node.0, do: pause, for: {PAUSED_S:g}s}}\n"
    directory, outcome = run(plan_of(star(2, events), stop={"rounds": 40}), tmp_path)
    assert outcome.reason == "finished"
    assert records(directory, "node.0")[-1].t > PAUSED_S
    summary = json.loads((directory.path / "summary.json").read_text())
    assert summary["computing"]["worst_late_s"] < PAUSED_S / 2
    assert summary["computing"]["works"] == 2 * 40


@needs_network
def test_a_node_that_is_silent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "UNHEARD_AFTER_S", 2.5)  # each node says something every two seconds
    what = "  - {at: 0.5s, node: node.2, do: pause, for: 4s}\n"
    plan = locally(plan_of(star(3, what), stop={"time": "6s"}, missing={"after": "500ms", "then": "skip"}))
    directory = create_run(tmp_path, "run")
    write_plan(directory, plan)
    said: list[str] = []
    RealRun(plan, directory, LocalBackend(), say=said.append).run()
    told = [each for each in records(directory, None) if isinstance(each, Event) and each.what == "unheard"]
    assert {each.node for each in told} == {"node.2"}
    assert "(paused)" in told[0].detail
    assert said == ["nothing heard for 2.5 s of node.2 (paused)"]
