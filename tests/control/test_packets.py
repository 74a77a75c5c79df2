"""Packets between processes: nothing that was said is lost, however the other side ended."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testbed.control import packets
from testbed.control.commands import Command, CommandDoor, Denied, Done, Inject, Look, Reply, ask
from testbed.control.packets import Entrance, PacketLink
from testbed.errors import UsageProblem
from testbed.protocol.message import encode
from testbed.protocol.nodes import FROM_NODE, TO_NODE, Halt, Idle, Ready


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
        link.send(Halt("stopped"))  # and this one has no recipient
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

    async def do(command: Command) -> AsyncIterator[Reply]:
        if isinstance(command, Look):
            raise UsageProblem("no", "later")
        yield Done(1.5)

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


def test_whoever_there_is_no_descriptor_for_waits_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "_CLOSED_S", 0.05)
    tried = 0

    def denied(_: socket.socket) -> tuple[socket.socket, str]:
        nonlocal tried
        tried += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def body() -> None:
        here: list[socket.socket] = []
        entrance = Entrance(tmp_path / "e.sock", here.append)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
            caller.connect(str(tmp_path / "e.sock"))
            with monkeypatch.context() as there_are_none:
                there_are_none.setattr(socket.socket, "accept", denied)
                for _ in range(100):  # turns of the loop: a busy sender tries in each of them
                    await asyncio.sleep(0.001)
                entrance.let_in()
                assert not here
            async with asyncio.timeout(30):
                while not here:
                    await asyncio.sleep(0.005)
        here[0].close()
        entrance.close()

    asyncio.run(body())
    assert 2 <= tried <= 50
