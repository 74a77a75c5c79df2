"""Which connections are cut off: those that brought more than ZeroMQ can have taken for messages, and no others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from testbed.node.zmq_guard import ConnectionGuard

LARGEST, WAITING = 10_000, 2
MOST = (WAITING + 2) * LARGEST
PEER = "127.0.0.1"
LOOKS_S = 0.1


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.node.zmq_guard._MARGIN_BYTES", 0)
    monkeypatch.setattr("testbed.node.zmq_guard._EVERY_S", LOOKS_S / 5)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server((PEER, 0)) as server:
        sender = socket.create_connection(server.getsockname())
        taker, _ = server.accept()
    with sender, taker:
        yield sender, taker


def moves(pair: tuple[socket.socket, socket.socket], sent: int, taken: int) -> None:
    pair[0].sendall(bytes(sent))
    while taken:
        taken -= len(pair[1].recv(taken))


async def is_cut_after(pair: tuple[socket.socket, socket.socket], sent: int, taken: int, brought: int) -> bool:
    cut: list[str] = []
    guard = ConnectionGuard(LARGEST, WAITING, {PEER}, cut.append)
    try:
        guard.comes(pair[1].fileno())
        moves(pair, sent, taken)
        guard.brought(pair[1].fileno(), brought)
        await asyncio.sleep(LOOKS_S)
    finally:
        guard.close()
    assert set(cut) <= {PEER}
    return bool(cut)


@pytest.mark.parametrize(
    ("sent", "taken", "brought", "is_cut"),
    [
        (MOST, MOST, 0, False),
        (MOST + 1, MOST + 1, 0, True),
        (MOST + 1, MOST + 1, 1, False),
        (5 * MOST, 0, 0, False),  # it stood still meanwhile: all is in the kernel
        (5 * MOST, MOST, 0, False),
        (5 * MOST, MOST + 1, 0, True),
        (5 * MOST, 5 * MOST, 4 * MOST, False),
        (5 * MOST, 5 * MOST, 4 * MOST - 1, True),
    ],
)
def test_only_what_was_taken_and_made_no_message_counts(
    pair: tuple[socket.socket, socket.socket], sent: int, taken: int, brought: int, is_cut: bool
) -> None:
    assert asyncio.run(is_cut_after(pair, sent, taken, brought)) == is_cut


def test_a_connection_is_judged_by_what_it_brought_itself(pair: tuple[socket.socket, socket.socket]) -> None:
    """Neither what others of its address brought excuses it, nor what they took to their graves is held against it."""

    async def test() -> None:
        cut: list[str] = []
        guard = ConnectionGuard(LARGEST, WAITING, {PEER}, cut.append)
        try:
            guard.comes(pair[1].fileno())
            with socket.create_server((PEER, 0)) as server:
                others = [(socket.create_connection(server.getsockname()), server.accept()[0]) for _ in range(3)]
            for sender, taker in others:
                guard.comes(taker.fileno())
                moves((sender, taker), MOST, MOST)
                guard.goes(taker.fileno())
                guard.brought(taker.fileno(), 10 * MOST)  # late
                sender.close()
                taker.close()
            moves(pair, MOST, MOST)
            await asyncio.sleep(LOOKS_S)
            assert not cut
            moves(pair, 1, 1)
            await asyncio.sleep(LOOKS_S)
            assert cut
        finally:
            guard.close()

    asyncio.run(test())
