"""Whoever is paused while it computes keeps no slot: on a machine of two cores two would be enough to starve all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.node.compute_slots import ComputeSlots, holders
from testbed.runtimes.local import node_actions
from testbed.runtimes.local.engine import NoEngine
from testbed.runtimes.local.node_actions import NodeActions
from testbed.runtimes.local.places import start_ticks
from tests.runtimes.corner import until
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

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
    assert start_ticks(pid)
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


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
        actions = NodeActions(plan_of(star(2)), control, log, NoEngine(), lambda *_: None, slots)
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
    monkeypatch.setattr(node_actions, "_ATTEMPTS_S", 0.3)
    monkeypatch.setattr(node_actions, "holders", lambda _: set(pids[1:]))

    async def body() -> float:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(6)), log)
        for rank, pid in enumerate(pids):
            control.started(rank, pid)
        actions = NodeActions(plan_of(star(6)), control, log, NoEngine(), lambda *_: None, tmp_path)
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
