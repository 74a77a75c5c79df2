"""A node that a user wants back comes back as often as the restart limit allows, and is refused beyond."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from testbed.control.commands import Done, Inject
from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.errors import PreflightRefused, UsageProblem
from testbed.protocol.zygote import Died, Forked
from testbed.runtimes.containers.supervisor_clients import SupervisorClients
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.node_actions import NodeActions
from tests.runtimes.containers.test_supervisor_clients import Played, Told, play, until
from tests.runtimes.contexts import context_of
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star

PLAN = locally(plan_of(star(2)))


class ByHand:
    """What people let happen to nodes whose containers a test plays."""

    def __init__(self, folder: Path, supervisors: SupervisorClients) -> None:
        self._log = ControlLog(folder / "events.jsonl")
        self._control = Control(PLAN, self._log)
        context = context_of(PLAN, self._control, self._log, NoEngine(), Nodes(supervisors))
        actions: Any = NodeActions(context)
        self._made = Injections(context, actions, lambda _: None)

    async def let(self, action: str, for_s: float | None = None, **restarts: int) -> None:
        allowed = {int(name.removeprefix("rank")): times for name, times in restarts.items()}
        assert isinstance(await anext(aiter(self._made.obey(Inject(action, (0,), for_s, allowed)))), Done)
        # It is requested; control here has no new process to expect.
        self._control.expect_no_more()

    def close(self) -> None:
        self._made.close()
        self._log.close()


class Nodes:
    """All that actions need of them."""

    def __init__(self, supervisors: SupervisorClients) -> None:
        self.start = supervisors.fork
        self.why_not_again = supervisors.why_not_again
        self.may_come_back = supervisors.may_come_back
        self.signal = supervisors.signal
        self.busy_s = supervisors.busy_s

    async def pause(self, ranks: Collection[int], is_wanted: object) -> list[int]:
        raise NotImplementedError


async def live_and_die(folder: Path, told: Told, rank: int) -> None:
    lives = len(told.began)
    played = Played(folder, rank)
    await played.hear()
    played.say(Forked(rank, 1))
    await until(lambda: len(told.began) > lives)
    played.say(Died(rank, 1, 9))
    await until(lambda: len(told.died) > lives)
    played.socket.close()
    await asyncio.sleep(0.02)


def test_a_join_needs_one_more_start_each_time(tmp_path: Path) -> None:
    async def body(supervisors: SupervisorClients, told: Told) -> None:
        by_hand = ByHand(tmp_path, supervisors)
        try:
            supervisors.fork(0, None, 0)
            await live_and_die(tmp_path, told, 0)
            await by_hand.let("join")  # the topology's own
            await live_and_die(tmp_path, told, 0)
            for times in (2, 3):
                with pytest.raises(PreflightRefused, match="its container is started again only as often"):
                    await by_hand.let("join")
                with pytest.raises(PreflightRefused, match="its container is started again only as often"):
                    await by_hand.let("join", rank0=1, rank1=9)  # no more than it has had; and another's are no use
                await by_hand.let("join", rank0=times)
                await live_and_die(tmp_path, told, 0)
            assert told.began == [(0, 1), (0, 2), (0, 3), (0, 4)]
        finally:
            by_hand.close()

    play(tmp_path, body)


def test_whoever_allows_it_must_name_nodes_of_the_run(tmp_path: Path) -> None:
    async def body(supervisors: SupervisorClients, told: Told) -> None:  # noqa: ARG001
        by_hand = ByHand(tmp_path, supervisors)
        try:
            with pytest.raises(UsageProblem, match="no rank 7"):
                await by_hand.let("join", rank7=1)
        finally:
            by_hand.close()

    play(tmp_path, body)


def test_which_containers_may_be_started_again_is_known(tmp_path: Path) -> None:
    async def body(supervisors: SupervisorClients, told: Told) -> None:  # noqa: ARG001
        assert supervisors.started_again == [0]
        supervisors.may_come_back(1, 0)
        assert supervisors.started_again == [0], "never is not once"
        supervisors.may_come_back(1, 1)
        supervisors.may_come_back(0, 0)
        assert supervisors.started_again == [0, 1]

    play(tmp_path, body)
