"""Two attempts to reach a peer that was slow to come: one of them is taken, the other ends without offence."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time

import pytest

from testbed.node.zmq_connection import ZmqConnection
from tests.node.test_zmq_transport import GREETING

PATIENCE_S = 10.0
AT_ONCE_S, BUSY_S = 0.3, 1.5


class Said:
    """What comes over a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.all = b""

    def hear_until_the_end(self, within_s: float) -> None:
        self._connection.settimeout(within_s)
        while more := self._connection.recv(1 << 16):
            self.all += more


def opened(slow: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both attempts' connections; the first of them has had its answer."""
    slow.listen()
    first, other = (slow.accept()[0] for _ in range(2))
    first.sendall(GREETING)
    return first, other


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True])
def test_the_attempt_that_is_not_taken_ends_when_its_opening_is_over(
    is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer cannot tell who breaks off before that from a stranger that speaks another protocol.

    Who is busy hears of all that has happened at once.
    """
    monkeypatch.setattr("testbed.node.zmq_connection._ATTEMPT_MS", 50)

    async def body(slow: socket.socket) -> None:
        up = asyncio.Event()
        connection = ZmqConnection("127.0.0.1", slow.getsockname(), 1.0, lambda _: up.set(), lambda _: None)
        try:
            await asyncio.sleep(AT_ONCE_S)
            opening = asyncio.get_running_loop().run_in_executor(None, opened, slow)
            if is_busy:
                time.sleep(BUSY_S)
            taken, other = await opening
            with taken, other:
                await asyncio.wait_for(up.wait(), PATIENCE_S)
                said = Said(other)
                with pytest.raises(TimeoutError):
                    await asyncio.to_thread(said.hear_until_the_end, AT_ONCE_S)
                other.sendall(GREETING)
                await asyncio.to_thread(said.hear_until_the_end, PATIENCE_S)
                assert b"READY" in said.all
        finally:
            connection.close(forget=True)

    with socket.socket() as slow:
        slow.bind(("127.0.0.1", 0))
        slow.settimeout(PATIENCE_S)
        asyncio.run(body(slow))


def test_a_process_without_descriptors_says_so_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = 0

    def no_socket(*_: object) -> socket.socket:
        nonlocal denied
        denied += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def body(peer: socket.socket) -> None:
        up = asyncio.Event()
        with monkeypatch.context() as there_are_none:
            there_are_none.setattr(socket, "socket", no_socket)
            connection = ZmqConnection("127.0.0.1", peer.getsockname(), 1.0, lambda _: up.set(), lambda _: None)
            while denied < 3:
                await asyncio.sleep(0.01)
        try:
            came, _ = await asyncio.to_thread(peer.accept)
            with came:
                came.sendall(GREETING)
                await asyncio.wait_for(up.wait(), PATIENCE_S)
        finally:
            connection.close(forget=True)

    with socket.create_server(("127.0.0.1", 0)) as peer:
        peer.settimeout(PATIENCE_S)
        asyncio.run(body(peer))
    assert capsys.readouterr().err == "cannot connect to 127.0.0.1: Too many open files; retrying\n"
