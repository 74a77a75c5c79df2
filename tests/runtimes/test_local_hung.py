"""The process that all nodes are forked from hangs: the run ends with a clear word, however little else goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.engines.spawn import spawn_module
from testbed.errors import ExitCode
from testbed.records import Over
from testbed.runtimes.processes import start_barrier, watches, zygote_client
from testbed.runtimes.processes.backend import Nodes
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.start_barrier import IDLE_S, LONGEST_S, BarrierWatch, HangDetector
from testbed.runtimes.processes.watches import StragglerWatch
from testbed.runtimes.processes.zygote_client import ZygoteClient
from tests.runtimes.contexts import context_of
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

HANGS = "the process that all nodes are forked from hangs: it was {}, and has done nothing for {:g} s"


@pytest.mark.processes
def test_before_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def start_and_stop(*words: object, **more: object) -> subprocess.Popen[bytes]:
        process = spawn_module(*words, **more)  # type: ignore[arg-type]
        os.kill(process.pid, signal.SIGSTOP)
        started.append(process.pid)
        return process

    monkeypatch.setattr("testbed.runtimes.processes.zygote_client.spawn_module", start_and_stop)
    monkeypatch.setattr(zygote_client, "_LOOK_S", 0.1)
    monkeypatch.setattr(start_barrier, "IDLE_S", 0.5)
    directory, outcome = run(plan_of(star(2)), tmp_path, engine="none")
    assert outcome.exit_code is ExitCode.NOT_STARTED
    assert outcome.broken == (HANGS.format("to get ready", 0.5),)
    over = records(directory, None)[-1]
    assert isinstance(over, Over)
    assert over.reason == "failed"
    assert not Path(f"/proc/{started[0]}").exists()


BACK = "  - {at: 0.3s, node: node.2, do: crash}\n  - {at: 0.6s, node: node.2, do: join}\n"


@needs_network
def test_while_nothing_but_a_node_that_joins_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = ZygoteClient.fork

    def stop_and_fork(self: ZygoteClient, rank: int, rejoin: str | None, first_round: int) -> None:
        if rejoin is not None:
            for pid in self.pids:
                os.kill(pid, signal.SIGSTOP)
            monkeypatch.setattr(start_barrier, "IDLE_S", 1.0)
        fork(self, rank, rejoin, first_round)

    monkeypatch.setattr(ZygoteClient, "fork", stop_and_fork)
    monkeypatch.setattr(zygote_client, "_LOOK_S", 0.1)
    monkeypatch.setattr(StragglerWatch, "_patience_s", lambda _: 0.5)
    _, outcome = run(plan_of(star(3, BACK), missing={"after": "100ms", "then": "skip"}, stop={"rounds": 30}), tmp_path)
    assert outcome.exit_code is ExitCode.NODE_FAILED
    assert outcome.broken == (HANGS.format("to start a node", 1.0),)


def test_whoever_computes_is_waited_for_longer_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"s": 0.0, "computed_s": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])
    wait = HangDetector(lambda: now["computed_s"])
    for at_s, computed_s, said in (
        (IDLE_S - 1, 0.0, None),
        (IDLE_S + 1, 0.01, None),
        (2 * IDLE_S, 0.01, None),
        (2 * IDLE_S + 1, 0.01, f"has done nothing for {IDLE_S:g} s"),
        (LONGEST_S - 1, 0.02, None),
        (LONGEST_S, 0.03, f"has not done it within {LONGEST_S:g} s"),
    ):
        now.update(s=at_s, computed_s=computed_s)
        assert wait.look() == said


# -- nodes that do not get ready ---------------------------------------------------------------------------------------

NOT_READY = "it was to get ready, and has done nothing for 1.5 s"


def look_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_barrier, "_LOOK_S", 0.1)
    monkeypatch.setattr(start_barrier, "CONNECTED_S", 0.1)
    monkeypatch.setattr(watches, "_GRACE_S", 0.5)


@pytest.mark.processes
def test_a_node_that_is_stopped_before_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and nothing of it stays; with so little patience, others may be that wait for their connections."""
    look_soon(monkeypatch)
    started, pids = Control.started, []

    def stop_and_tell(self: Control, rank: int, pid: int) -> None:
        if rank == 1:
            os.kill(pid, signal.SIGSTOP)
            monkeypatch.setattr(start_barrier, "IDLE_S", 1.5)
            pids.append(pid)
        started(self, rank, pid)

    monkeypatch.setattr(Control, "started", stop_and_tell)
    directory, outcome = run(plan_of(star(3)), tmp_path, engine="none")
    assert outcome.exit_code is ExitCode.NODE_FAILED
    assert ("node.1", NOT_READY) in [(each.node, each.failure.message) for each in outcome.failures]
    over = records(directory, None)[-1]
    assert isinstance(over, Over)
    assert (over.reason, over.finished) == ("failed", 0)
    assert not Path(f"/proc/{pids[0]}").exists()


class Played:
    """Nodes that a test plays: what they have computed is what it says."""

    def __init__(self) -> None:
        self.computed_s = dict.fromkeys(range(3), 0.0)

    def busy_s(self, rank: int) -> float:
        return self.computed_s[rank]


def watched(folder: Path, play: Callable[[Control, Played], Awaitable[None]]) -> list[str]:
    """Who has failed in the end."""

    async def whole() -> list[str]:
        plan, log = plan_of(star(3)), ControlLog(folder / "events.jsonl")
        control, nodes = Control(plan, log), Played()
        for rank in range(3):
            control.expect(rank)
            control.started(rank, 100 + rank)
        watch = BarrierWatch(context_of(plan, control, log, NoEngine(), cast(Nodes, nodes)))
        async with asyncio.timeout(20.0):
            await asyncio.gather(watch.watch(range(3)), play(control, nodes))
        return [each.node for each in control.rules.outcome(0.0, has_begun=False).failures]

    return asyncio.run(whole())


@pytest.mark.slow
def test_who_waits_for_its_turn_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To get warm; as long as one of those that are not ready computes."""
    look_soon(monkeypatch)
    monkeypatch.setattr(start_barrier, "IDLE_S", 0.5)

    async def play(control: Control, nodes: Played) -> None:
        for rank in range(3):
            for _ in range(8):
                await asyncio.sleep(0.1)
                nodes.computed_s[rank] += 0.01
            assert not control.is_ending
            control.nodes[rank].is_ready = True

    assert watched(tmp_path, play) == []


def test_only_those_are_named_that_are_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_soon(monkeypatch)
    monkeypatch.setattr(start_barrier, "IDLE_S", 0.5)

    async def play(control: Control, nodes: Played) -> None:
        control.nodes[1].is_ready = True
        for _ in range(100):
            if control.is_ending:
                return
            nodes.computed_s[1] += 0.01  # what those do that are ready is no sign
            await asyncio.sleep(0.05)
        pytest.fail("it goes on for as long as those compute that are ready")

    assert watched(tmp_path, play) == ["node.0", "node.2"]
