"""What people let happen to nodes for a while: the last word counts, and a crash cuts a node off before it dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from testbed.control.commands import Divide, Done, Inject
from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.errors import UsageProblem
from testbed.protocol.fabric import Cut, Heal, Partition, ToFabric, Uncut
from testbed.records import Event
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.node_actions import NodeActions
from testbed.runtimes.processes.run import RealRun
from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.process_records import ProcessRecord, process_record
from tests.runtimes.contexts import context_of
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import DECODER, plan_of, star
from tests.runtimes.unforked import Unforked

PLAN = locally(plan_of(star(2)))
PATIENCE_S = 20.0


class Noting:
    """Stands for what is done to nodes."""

    def __init__(self, control: Control) -> None:
        self.done: list[tuple[str, tuple[int, ...]]] = []
        self._control = control

    def why_not(self, _action: str, _rank: int) -> str | None:
        return None

    async def happen(self, action: str, ranks: Collection[int], _planned_t: float) -> float:
        self.done.append((action, tuple(ranks)))
        return self._control.now()


def done(folder: Path, *commands: Inject, until: int) -> list[tuple[str, tuple[int, ...]]]:
    """What happens to nodes, up to so many things, when these are said one right after the other."""

    async def body() -> list[tuple[str, tuple[int, ...]]]:
        log = ControlLog(folder / "events.jsonl")
        control = Control(PLAN, log)
        control._begun_at = 0.0
        actions: Any = Noting(control)
        made = Injections(context_of(PLAN, control, log, NoEngine(), actions), actions, lambda _: None)
        for command in commands:
            assert isinstance(await anext(aiter(made.obey(command))), Done)
        async with asyncio.timeout(PATIENCE_S):
            while len(actions.done) < until or (made.is_waiting and not any(each.for_s == 60.0 for each in commands)):
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        made.close()
        log.close()
        return list(actions.done)

    return asyncio.run(body())


def test_what_is_done_for_a_while_is_undone(tmp_path: Path) -> None:
    assert done(tmp_path, Inject("pause", (0, 1), 0.05), until=2) == [("pause", (0, 1)), ("resume", (0, 1))]


def test_the_last_word_counts(tmp_path: Path) -> None:
    """A node that is paused for a moment, and then for a minute, is paused for that minute."""
    found = done(tmp_path, Inject("pause", (0, 1), 0.05), Inject("pause", (0,), 60.0), until=3)
    assert found == [("pause", (0, 1)), ("pause", (0,)), ("resume", (1,))]


def test_another_kind_of_word_does_not(tmp_path: Path) -> None:
    found = done(tmp_path, Inject("disconnect", (0,), 0.05), Inject("pause", (0,), 60.0), until=3)
    assert found == [("disconnect", (0,)), ("pause", (0,)), ("reconnect", (0,))]


def test_the_last_word_may_be_the_topologys(tmp_path: Path) -> None:
    """A node that events disconnect meanwhile is reconnected when the events say so."""
    events = "  - {at: 100ms, node: node.1, do: disconnect, for: 400ms}\n"
    plan = locally(plan_of(star(2, events), stop={"rounds": 1}))

    async def body() -> list[tuple[str, tuple[int, ...]]]:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan, log)
        control._begun_at = time.monotonic()
        actions: Any = Noting(control)
        made = Injections(context_of(plan, control, log, NoEngine(), actions), actions, lambda _: None)
        begun = made.obey(Inject("disconnect", (0, 1), 0.2))
        assert isinstance(await anext(aiter(begun)), Done)
        backend: Any = None
        run = RealRun(plan, RunDirectory(tmp_path), backend)
        run._control = control
        await run._follow_timeline(actions, made, control._begun_at)
        while made.is_waiting:
            await asyncio.sleep(0.005)
        log.close()
        return list(actions.done)

    assert asyncio.run(body()) == [
        ("disconnect", (0, 1)),
        ("disconnect", (1,)),
        ("reconnect", (0,)),
        ("reconnect", (1,)),
    ]


def test_what_nothing_undoes_is_not_done_for_a_while(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="nothing undoes resume"):
        done(tmp_path, Inject("resume", (0,), 1.0), until=1)


def test_who_is_paused_again_is_paused_until_the_later_end_and_since_the_earlier_beginning(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    stood: list[tuple[int, float]] = []

    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(PLAN, log)
        control._begun_at = time.monotonic()
        control.started(1, pid)
        control.nodes.stood = lambda rank, since_s: stood.append((rank, since_s))  # type: ignore[method-assign]
        context = context_of(PLAN, control, log, NoEngine(), Unforked(control.nodes.pid_of, tmp_path))
        actions = NodeActions(context)
        made = Injections(context, actions, lambda _: None)
        assert isinstance(await anext(aiter(made.obey(Inject("pause", (1,), 0.1)))), Done)
        since_s = actions.paused[1]
        again = made.obey(Inject("pause", (1,), 0.5))
        began = await anext(again)
        assert isinstance(began, Done)
        assert began.until_t is not None
        await asyncio.sleep(0.2)
        assert actions.paused == {1: since_s}
        over = await anext(again)
        assert isinstance(over, Done)
        assert over.t >= began.until_t
        assert stood == [(1, since_s)]
        while made.is_waiting:
            await asyncio.sleep(0.005)
        log.close()

    try:
        asyncio.run(body())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Agreeing(NoEngine):
    """A network that does whatever is asked of it."""

    def __init__(self) -> None:
        self.asked: list[ToFabric] = []

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        self.asked.append(make(0))
        return time.monotonic()


@pytest.mark.parametrize(
    ("briefly", "longer", "asked"),
    [
        (
            Inject("disconnect", (1,), 0.1),
            Inject("disconnect", (1,), 0.3),
            [Cut(0, (1,)), Cut(0, (1,)), Uncut(0, (1,))],
        ),
        (
            Divide(((0,), (1,)), 0.1),
            Divide(((0,), (1,)), 0.3),
            [
                Partition(0, "by-hand-1", ((0,), (1,))),
                Partition(0, "by-hand-2", ((0,), (1,))),
                Heal(0, "by-hand-1"),
                Heal(0, "by-hand-2"),
            ],
        ),
    ],
    ids=["disconnect", "partition"],
)
def test_what_is_asked_for_again_lasts_as_long_as_was_said_last(
    briefly: Inject | Divide, longer: Inject | Divide, asked: list[ToFabric], tmp_path: Path
) -> None:
    async def body() -> list[ToFabric]:
        log, engine = ControlLog(tmp_path / "events.jsonl"), Agreeing()
        control = Control(PLAN, log)
        control._begun_at = time.monotonic()
        context = context_of(PLAN, control, log, engine, Unforked(control.nodes.pid_of, tmp_path))
        actions = NodeActions(context)
        made = Injections(context, actions, lambda _: None)
        assert isinstance(await anext(aiter(made.obey(briefly))), Done)
        said = [each async for each in made.obey(longer)]
        assert all(isinstance(each, Done) for each in said)
        while made.is_waiting:
            await asyncio.sleep(0.005)
        log.close()
        return engine.asked

    assert asyncio.run(body()) == asked


class Watched(NoEngine):
    """Notes what is asked of it, and whether a process lived then."""

    def __init__(self, process: ProcessRecord) -> None:
        self._process = process
        self.asked: list[tuple[str, tuple[int, ...], bool]] = []

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        request = make(1)
        assert isinstance(request, Cut | Uncut)
        await asyncio.sleep(0.05)  # a fabric takes its time
        self.asked.append((type(request).__name__, request.ranks, is_alive(self._process)))
        return 0.0


@pytest.mark.parametrize(("action", "asked"), [("crash", [("Cut", (1,), True)]), ("kill", [])])
def test_a_crash_cuts_a_node_off_before_it_dies_and_a_kill_does_not(
    action: str, asked: list[object], tmp_path: Path
) -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    record = process_record("node 1", pid)

    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control, engine = Control(PLAN, log), Watched(record)
        control.started(1, pid)
        actions = NodeActions(context_of(PLAN, control, log, engine, Unforked(control.nodes.pid_of, tmp_path)))
        await actions.happen(action, (1,), 0.0)
        assert engine.asked == asked
        assert control.nodes[1].is_death_planned
        log.close()

    try:
        asyncio.run(body())
    finally:
        os.kill(pid, signal.SIGTERM)  # which comes too late for one that was killed
        _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    told = [DECODER.decode(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert action in [getattr(each, "what", "") for each in told]


@pytest.mark.parametrize(("action", "asked"), [("disconnect", "Cut"), ("reconnect", "Uncut")])
def test_who_is_disconnected_by_hand_is_cut_off_and_lives(action: str, asked: str, tmp_path: Path) -> None:
    engine = Watched(process_record("node 1", os.getpid()))

    async def body() -> float:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(PLAN, log)
        control._begun_at = 0.0
        control.started(1, os.getpid())
        actions = NodeActions(context_of(PLAN, control, log, engine, Unforked(control.nodes.pid_of, tmp_path)))
        t = await actions.happen(action, (1,), 0.5)
        log.close()
        return t

    assert asyncio.run(body()) == 0.0  # since when, as the engine says
    assert engine.asked == [(asked, (1,), True)]
    (told,) = (
        each
        for each in map(DECODER.decode, (tmp_path / "events.jsonl").read_bytes().splitlines())
        if isinstance(each, Event) and each.what == action
    )
    assert (told.t, told.planned_t, told.node) == (0.0, 0.5, "node.1")


def test_who_comes_back_is_reached_again_and_begins_as_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Watched(process_record("node 1", os.getpid()))
    forked: list[tuple[int, str | None]] = []

    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(PLAN, log)
        nodes = Unforked(control.nodes.pid_of, tmp_path)
        monkeypatch.setattr(nodes, "start", lambda rank, rejoin, _: forked.append((rank, rejoin)), raising=False)
        actions = NodeActions(context_of(PLAN, control, log, engine, nodes))
        actions.start(0)
        control.expect_no_more()  # and it is gone again
        for rank in (0, 1):
            await actions.happen("join", (rank,), 0.0)
            assert control.nodes.is_expected(rank)
        log.close()

    asyncio.run(body())
    assert [asked[:2] for asked in engine.asked] == [("Uncut", (0,)), ("Uncut", (1,))]
    assert forked == [(0, None), (0, PLAN.experiment.rejoin), (1, "fresh")]
