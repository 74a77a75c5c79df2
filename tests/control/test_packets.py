"""Packets between processes: nothing that was said is lost, however the other side ended."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from testbed.control.commands import Command, CommandDoor, Denied, Done, Inject, Look, Reply, ask
from testbed.control.packets import PacketLink
from testbed.errors import UsageProblem
from testbed.protocol import FROM_NODE, TO_NODE, Halt, Idle, Ready, encode


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def test_last_words_are_heard_though_the_other_side_is_gone() -> None:
    async def body() -> list[object]:
        ours, theirs = pair()
        heard: list[object] = []
        over: list[bool] = []
        link = PacketLink(ours, lambda packet: heard.append(FROM_NODE.read(packet)), lambda: over.append(True))
        link.send(Halt("stopped"))  # which it will not have read
        theirs.send(encode(Ready()))
        theirs.send(encode(Idle()))
        theirs.close()
        link.send(Halt("stopped"))  # and this one finds nobody
        assert not over
        link.drain()
        link.drain()
        assert over == [True]
        return heard

    assert asyncio.run(body()) == [Ready(), Idle()]


def test_what_is_waiting_is_sent_before_the_end() -> None:
    async def body() -> int:
        ours, theirs = pair()
        link = PacketLink(ours, lambda _: None, lambda: None)
        for _ in range(2000):
            link.send(Halt("stopped"))

        def read_all() -> int:
            count = 0
            while data := theirs.recv(1 << 16):
                assert TO_NODE.read(data) == Halt("stopped")
                count += 1
            return count

        reading = asyncio.get_running_loop().run_in_executor(None, read_all)
        link.finish(10.0)
        count = await reading
        theirs.close()
        return count

    assert asyncio.run(body()) == 2000


def test_a_run_answers_commands(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"

    def do(command: Command) -> Reply:
        if isinstance(command, Look):
            raise UsageProblem("no", "later")
        return Done(1.5)

    async def body() -> None:
        door = CommandDoor(path, do)
        assert await asyncio.to_thread(ask, path, Inject("pause", (1,))) == Done(1.5)
        with pytest.raises(UsageProblem, match=r"^no$"):
            await asyncio.to_thread(ask, path, Look())
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(str(path))
            stranger.send(b"nonsense")
            said = await asyncio.to_thread(stranger.recv, 1 << 16)
        assert b"denied" in said
        door.close()

    asyncio.run(body())
    with pytest.raises(UsageProblem, match="does not answer"):
        ask(path, Look())
    assert Denied("a").hint == ""
