"""What happens to nodes that are about to come, or have just gone: nothing of it is lost, nor done to the next life."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import pytest

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.plan.model import RunPlan
from testbed.protocol.fabric import ToFabric
from testbed.protocol.nodes import Halt
from testbed.records import Event
from testbed.runtimes.processes.backend import News
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.local_backend import LocalBackend, LocalNodes
from testbed.runtimes.processes.node_actions import NodeActions
from tests.control.test_barrier import heard
from tests.runtimes.contexts import context_of
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

PLAN = locally(plan_of(star(2)))


class Stage(NoEngine):
    """Nodes and an engine that only note what is done to them, in order; node 1 has a life when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.done: list[object] = []
        self._log = ControlLog(folder / "events.jsonl")
        self.control = Control(PLAN, self._log)
        self.actions = NodeActions(context_of(PLAN, self.control, self._log, self, self))
        self.may_answer = asyncio.Event()
        """The engine does."""
        self.may_answer.set()

    async def act(self, action: str) -> None:
        await self.actions.happen(action, (1,), 0.0)

    async def lives(self, pid: int) -> None:
        """Its process was made."""
        self.control.started(1, pid)
        await self.actions.began(1)

    def dies(self, pid: int) -> Awaitable[None]:
        """Its process is over, which is no failure here; what is to be done then."""
        self.control.nodes.plan_death(1)
        burial = self.actions.died(1)
        self.control.died(1, pid, "killed")
        return burial

    def close(self) -> None:
        self.control.close()
        self._log.close()

    # -- as an engine ----------------------------------------------------------------------------------------------

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        await self.may_answer.wait()
        self.done.append(type(make(1)).__name__.lower())
        return 0.0

    async def detach(self, rank: int) -> None:
        assert rank == 1
        await self.may_answer.wait()
        self.done.append("detach")

    # -- as the nodes ----------------------------------------------------------------------------------------------

    def start(self, rank: int, rejoin: str | None, first_round: int) -> None:  # noqa: ARG002
        assert rank == 1
        self.done.append("start")

    def signal(self, rank: int, number: signal.Signals) -> None:
        if self.control.nodes.pid_of(rank) is not None:
            self.done.append(number.name)

    async def pause(self, ranks: Collection[int], is_wanted: Callable[[int], bool]) -> list[int]:
        assert all(is_wanted(rank) for rank in ranks)
        self.done.extend("pause" for _ in ranks)
        return []

    def why_not_again(self, rank: int) -> str | None:  # noqa: ARG002
        return None

    def may_come_back(self, rank: int, times: int) -> None:
        raise NotImplementedError

    def busy_s(self, rank: int) -> float:
        raise NotImplementedError


def play(folder: Path, body: Callable[[Stage], Awaitable[None]]) -> list[object]:
    async def whole() -> list[object]:
        stage = Stage(folder)
        try:
            async with asyncio.timeout(20.0):
                await body(stage)
        finally:
            stage.close()
        return stage.done

    return asyncio.run(whole())


def test_a_burial_that_comes_late_leaves_the_next_life_its_device(tmp_path: Path) -> None:
    """A user wants the node back before its death is handled."""

    async def body(stage: Stage) -> None:
        await stage.lives(10)
        stage.may_answer.clear()
        something = asyncio.ensure_future(stage.act("disconnect"))
        await asyncio.sleep(0)
        burial = stage.dies(10)
        join = asyncio.ensure_future(stage.act("join"))
        await asyncio.sleep(0)
        buried = asyncio.ensure_future(burial)  # its turn is after that
        await asyncio.sleep(0)
        stage.may_answer.set()
        await asyncio.gather(something, join, buried)

    assert play(tmp_path, body) == ["cut", "detach", "uncut", "start"]


def test_nor_does_one_whose_next_life_has_begun_take_it_away(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        await stage.lives(10)
        burial = stage.dies(10)
        await stage.act("join")
        await stage.lives(11)
        await burial

    assert play(tmp_path, body) == ["detach", "uncut", "start"]


def test_the_device_of_a_node_that_stays_dead_is_closed(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        await stage.lives(10)
        await stage.dies(10)

    assert play(tmp_path, body) == ["detach"]


@pytest.mark.parametrize(("action", "before", "after"), [("kill", [], ["SIGKILL"]), ("crash", ["cut"], ["SIGKILL"])])
def test_who_is_to_die_before_it_lives_dies_then(
    action: str, before: list[str], after: list[str], tmp_path: Path
) -> None:
    async def body(stage: Stage) -> None:
        await stage.act("join")
        stage.done.clear()
        await stage.act(action)
        assert stage.done == before
        await stage.lives(10)
        assert stage.done == [*before, *after]
        assert stage.control.nodes[1].is_death_planned
        await stage.dies(10)
        await stage.act("join")
        await stage.lives(11)  # and only that life
        assert stage.done[len([*before, *after]) :] == ["detach", "detach", "uncut", "start"]

    play(tmp_path, body)


def test_a_node_that_has_done_its_work_does_not_come_back(tmp_path: Path) -> None:
    """Neither by the topology's events nor by hand: it would train again what it has."""

    async def body(stage: Stage) -> None:
        await stage.act("join")
        await stage.lives(10)
        stage.control.rules.ended(1, "finished")
        assert stage.actions.why_not("join", 1) == "has done all of its work"
        await stage.dies(10)
        stage.done.clear()
        await stage.act("join")
        assert stage.done == []

    play(tmp_path, body)


def test_who_is_to_leave_before_it_lives_leaves_as_soon_as_it_can_hear_of_it(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        await stage.act("join")
        await stage.act("leave")
        await stage.lives(10)
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with mine:
            mine.setblocking(False)
            stage.control.connections.connect(1, theirs)
            assert heard(mine) == [Halt("left")]
        assert stage.control.nodes[1].is_death_planned

    play(tmp_path, body)


def test_who_is_paused_before_it_lives_is_paused_then_unless_it_may_go_on(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        await stage.act("join")
        stage.done.clear()
        await stage.act("pause")
        assert stage.actions.why_not("resume", 1) is None
        await stage.act("resume")
        await stage.act("pause")
        await stage.lives(10)
        assert list(stage.actions.paused) == [1]
        await stage.act("resume")
        assert stage.done == ["pause", "SIGCONT"]
        await stage.dies(10)
        await stage.act("join")
        await stage.act("pause")
        await stage.act("resume")
        stage.done.clear()
        await stage.lives(11)
        assert stage.done == []
        assert not stage.actions.paused

    play(tmp_path, body)


def test_the_last_word_about_a_node_that_is_still_to_come_counts(tmp_path: Path) -> None:
    """It is killed, and wanted back, before it lives: there will be one life more."""

    async def body(stage: Stage) -> None:
        await stage.act("join")
        assert stage.actions.why_not("join", 1) == "is about to come already"
        await stage.act("kill")
        await stage.act("pause")
        assert stage.actions.why_not("join", 1) is None
        await stage.act("join")
        stage.done.clear()
        await stage.lives(10)
        assert stage.done == ["SIGKILL"]
        await stage.dies(10)
        assert stage.done == ["SIGKILL", "detach", "uncut", "start"]
        await stage.lives(11)
        assert stage.done[4:] == []

    play(tmp_path, body)


class LateBirths(LocalBackend):
    """Who comes back is born half a second after it was asked for, as on a machine that has much to do."""

    def nodes(self, plan: RunPlan, control: Control, loopback: int, news: News) -> LocalNodes:
        nodes = super().nodes(plan, control, loopback, news)
        begin = nodes.start

        def start(rank: int, rejoin: str | None, first_round: int) -> None:
            late_s = 0.0 if rejoin is None else 0.5
            asyncio.get_running_loop().call_later(late_s, begin, rank, rejoin, first_round)

        nodes.start = start  # type: ignore[method-assign]
        return nodes


@needs_network
def test_a_run_whose_node_crashes_while_its_process_is_being_made(tmp_path: Path) -> None:
    """It is not left alone, cut off from all others."""
    events = "".join(
        f"  - {{at: {at}, node: node.2, do: {do}}}\n" for at, do in (("300ms", "join"), ("301ms", "crash"))
    )
    directory, outcome = run(
        plan_of(star(3, events), stop={"rounds": 20}, missing={"after": "300ms", "then": "skip"}),
        tmp_path,
        backend=LateBirths(),
    )
    assert (outcome.reason, outcome.failures) == ("finished", ())
    happened = [each.what for each in records(directory, None) if isinstance(each, Event) and each.node == "node.2"]
    assert happened == ["join", "crash", "joined"]
    journal = directory.node("node.2").journal
    assert not journal.exists() or b'"round"' not in journal.read_bytes(), "it died when it was born"
