"""Control's side of the learners' containers, with clients that a test plays."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import pytest

from testbed.protocol.message import encode
from testbed.protocol.zygote import Died, Fork, Forked
from testbed.runtimes.containers import SUPERVISOR_SOCKET
from testbed.runtimes.containers import supervisor_clients as module
from testbed.runtimes.containers.container_paths import folder_of_node
from testbed.runtimes.containers.supervisor_clients import SupervisorClients
from testbed.runtimes.containers.supervisor_messages import ATTACH, KILL, PAUSE, TO_SUPERVISOR, Came, Do, Paused, Used
from testbed.runtimes.processes.backend import News
from testbed.socket_paths import connect

_S = 5.0


class Told:
    """What was told of nodes."""

    def __init__(self) -> None:
        self.began: list[tuple[int, int]] = []
        self.died: list[Died] = []
        self.gone: list[str] = []

    @property
    def news(self) -> News:
        return News(
            lambda rank, life: self.began.append((rank, life)), self.died.append, lambda _: None, self.gone.append
        )


class Played:
    """The first process of a container, as control sees it."""

    all: ClassVar[list[Played]] = []

    def __init__(self, sockets: Path, rank: int) -> None:
        self.all.append(self)
        self.socket = connect(folder_of_node(sockets, rank) / SUPERVISOR_SOCKET)
        self.socket.setblocking(False)

    def say(self, message: Came | Forked | Died | Used | Paused) -> None:
        self.socket.send(encode(message))

    async def hear(self) -> Fork | Do:
        """The next word, but for the one that all of them hear who come before their turn."""
        word = await self.hear_all()
        return await self.hear_all() if word == Do(ATTACH) else word

    async def hear_all(self) -> Fork | Do:
        packet = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.socket, 65536), _S)
        return TO_SUPERVISOR.read(packet)


def play(
    tmp_path: Path, body: Callable[[SupervisorClients, Told], Awaitable[None]], absent: tuple[int, ...] = ()
) -> None:
    for rank in range(2):
        folder_of_node(tmp_path, rank).mkdir(parents=True)

    async def whole() -> None:
        told = Told()
        clients = SupervisorClients(tmp_path, ["a", "b"], absent, {0: 1}, told.news)
        try:
            await body(clients, told)
        finally:
            clients.close()
            while Played.all:
                Played.all.pop().socket.close()

    asyncio.run(whole())


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(_S):
        while not is_so():
            await asyncio.sleep(0.005)


def test_whoever_comes_before_its_turn_gets_its_network_meanwhile(tmp_path: Path) -> None:
    """But not one that is to join later, nor one that lives again: until then it is not in the network."""

    async def body(clients: SupervisorClients, told: Told) -> None:
        early, later = Played(tmp_path, 0), Played(tmp_path, 1)
        assert await early.hear_all() == Do(ATTACH)
        for rank in (0, 1):
            clients.fork(rank, None, 0)
        assert await early.hear_all() == Fork(0, None, 0, (1,))
        assert await later.hear_all() == Fork(1, None, 0, (1,))
        early.say(Forked(0, 7))
        await until(lambda: told.began)
        early.socket.close()
        await until(lambda: told.died)
        again = Played(tmp_path, 0)
        await until(lambda: clients._containers[0].link)
        clients.fork(0, "fresh", 3)
        assert await again.hear_all() == Fork(0, "fresh", 3, (1,))

    play(tmp_path, body, absent=(1,))


def test_an_order_waits_for_its_container_and_a_container_for_its_order(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        clients.fork(0, None, 0)
        early, late = Played(tmp_path, 0), Played(tmp_path, 1)
        assert await early.hear() == Fork(0, None, 0, (1,))
        clients.fork(1, "last", 3)
        assert await late.hear() == Fork(1, "last", 3, (1,))
        early.say(Forked(0, 7))
        await until(lambda: told.began == [(0, 1)])

    play(tmp_path, body, absent=(1,))


def test_each_start_of_the_container_is_a_life_with_a_number_of_its_own(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        clients.fork(0, None, 0)
        first = Played(tmp_path, 0)
        await first.hear()
        first.say(Forked(0, 1))
        first.say(Died(0, 1, 9))
        first.socket.close()
        await until(lambda: told.died)
        again = Played(tmp_path, 0)
        clients.fork(0, "fresh", 2)
        assert await again.hear() == Fork(0, "fresh", 2)
        again.say(Forked(0, 1))
        await until(lambda: len(told.began) == 2)
        assert told.began == [(0, 1), (0, 2)]
        assert told.died == [Died(0, 1, 9)]

    play(tmp_path, body)


def test_one_whose_node_is_to_live_again_is_told_so_and_gets_its_order_when_it_has_been_started_anew(
    tmp_path: Path,
) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        clients.fork(0, None, 0)
        first = Played(tmp_path, 0)
        await first.hear()
        first.say(Forked(0, 1))
        first.say(Died(0, 1, 0))
        await until(lambda: told.died)
        clients.fork(0, "last", 4)
        assert await first.hear() == Fork(0, "last", 4)
        first.socket.close()
        await asyncio.sleep(0.02)
        again = Played(tmp_path, 0)
        assert await again.hear() == Fork(0, "last", 4)
        again.say(Forked(0, 1))
        await until(lambda: told.began == [(0, 1), (0, 2)])
        assert len(told.died) == 1

    play(tmp_path, body)


def test_a_container_comes_back_only_as_often_as_it_is_started_again(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        assert clients.why_not_again(1) is None  # it has not lived yet
        for rank, lives in ((0, 1), (1, 1), (0, 2)):
            clients.fork(rank, None, 0)
            played = Played(tmp_path, rank)
            await played.hear()
            played.say(Forked(rank, 1))
            await until(lambda expected=(rank, lives): expected in told.began)  # type: ignore[misc]
            played.say(Died(rank, 1, 9))
            played.socket.close()
            await asyncio.sleep(0.05)
            if (rank, lives) == (0, 1):
                assert clients.why_not_again(0) is None
        for rank in (0, 1):
            assert "its container is started again only as often" in (clients.why_not_again(rank) or "")

    play(tmp_path, body)


def test_a_container_that_hangs_up_without_a_word_was_killed(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        clients.fork(0, None, 0)
        played = Played(tmp_path, 0)
        await played.hear()
        played.say(Forked(0, 1))
        await until(lambda: told.began)
        played.socket.close()
        await until(lambda: told.died)
        assert told.died == [Died(0, 1, signal.SIGKILL)]

    play(tmp_path, body)


def test_one_that_never_lived_cannot_die(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        played = Played(tmp_path, 0)
        played.say(Came())
        played.say(Died(0, 1, 9))
        played.socket.close()
        await asyncio.sleep(0.05)
        assert told.died == []
        assert clients.busy_s(0) == 0.0

    play(tmp_path, body)


def test_nobody_else_comes_in_where_the_first_process_is(tmp_path: Path) -> None:
    """Its learner has the same folder; what it says there is not heard, and its rank in a message is not believed."""

    async def body(clients: SupervisorClients, told: Told) -> None:
        clients.fork(0, None, 0)
        played = Played(tmp_path, 0)
        await played.hear()
        learner = Played(tmp_path, 0)
        assert await asyncio.get_running_loop().sock_recv(learner.socket, 10) == b""
        played.say(Forked(1, 1))
        await until(lambda: told.began)
        assert told.began == [(0, 1)]

    play(tmp_path, body)


def test_what_is_no_message_is_not_heard(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:
        clients.fork(0, None, 0)
        played = Played(tmp_path, 0)
        await played.hear()
        played.socket.send(b"\xff" * 100)
        played.say(Forked(0, 1))
        await until(lambda: told.began)

    play(tmp_path, body)


def test_signals_become_orders_and_processor_time_is_told(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:  # noqa: ARG001
        clients.fork(0, None, 0)
        played = Played(tmp_path, 0)
        await played.hear()
        clients.signal(0, signal.SIGKILL)
        assert await played.hear() == Do(KILL)
        played.say(Used(2.5))
        await until(lambda: clients.busy_s(0) == 2.5)
        clients.signal(1, signal.SIGKILL)  # which is not there

    play(tmp_path, body)


@pytest.mark.parametrize(("keeps_slot", "expected"), [(False, []), (True, [0])])
def test_pausing_waits_until_the_learner_stands_still(tmp_path: Path, keeps_slot: bool, expected: list[int]) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:  # noqa: ARG001
        played = Played(tmp_path, 0)
        await asyncio.sleep(0.02)
        pausing = asyncio.ensure_future(clients.pause([0, 1]))
        assert await played.hear() == Do(PAUSE)
        assert not pausing.done()
        played.say(Paused(keeps_slot=keeps_slot))
        assert await asyncio.wait_for(pausing, _S) == expected

    play(tmp_path, body)


def test_a_container_that_hangs_up_holds_up_no_pause(tmp_path: Path) -> None:
    async def body(clients: SupervisorClients, told: Told) -> None:  # noqa: ARG001
        played = Played(tmp_path, 0)
        await asyncio.sleep(0.02)
        pausing = asyncio.ensure_future(clients.pause([0]))
        await played.hear()
        played.socket.close()
        assert await asyncio.wait_for(pausing, 1.0) == []

    play(tmp_path, body)


def test_a_container_that_never_comes_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "_TIMEOUT_EACH_S", 0.0)

    async def body(clients: SupervisorClients, told: Told) -> None:
        Played(tmp_path, 0)
        clients.fork(0, None, 0)
        clients.fork(1, None, 0)
        await until(lambda: told.gone)
        assert len(told.gone) == 1
        assert told.gone[0].startswith("the container of b has not connected")

    play(tmp_path, body)
