"""Messages over ZeroMQ on the loopback: what arrives, what does not, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import zmq

from testbed.node.messages import DTYPES, MAX_HEADER, MOST_BUFFERS, Message
from testbed.node.sealing import sealed
from testbed.node.zmq_frames import Envelope, FramedMessage, opened
from testbed.node.zmq_inbox import Refusal
from testbed.node.zmq_transport import ZmqTransport
from testbed.node.zmtp import frame_head

Test = Callable[[], Awaitable[None]]


NETWORK = f"127.{1 + os.getpid() // 256 % 200}.{os.getpid() % 256}"
"""Of this process and those that it forks: tests run side by side."""


def addresses(count: int = 3) -> list[str]:
    """The whole of 127/8 is this host."""
    return [f"{NETWORK}.{rank + 1}" for rank in range(count)]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind((addresses()[0], 0))
        return int(probe.getsockname()[1])


def model(round_: int, parameters: int = 1000) -> Message:
    return Message("model", round_, payload=(np.full(parameters, round_, np.float32),))


class End:
    """One node's transport and what it got."""

    def __init__(self, rank: int, port: int, **more: Any) -> None:
        self.got: list[tuple[int, Message]] = []
        self._changed = asyncio.Event()
        self.transport = ZmqTransport(rank, addresses(), port, self._receive, **more)

    def _receive(self, sender: int, message: Message) -> None:
        self.got.append((sender, message))
        self._changed.set()

    async def has(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.got) < count:
                self._changed.clear()
                await self._changed.wait()

    async def refuses(self, kind: Refusal, count: int = 1) -> None:
        async with asyncio.timeout(10):
            while self.transport.refused.get(kind, 0) < count:
                await asyncio.sleep(0.01)

    async def sends(self, to: int, message: Message) -> None:
        """Until it has left."""
        left = asyncio.Event()
        self.transport.ship(to, message, left.set)
        async with asyncio.timeout(10):
            await left.wait()


@asynccontextmanager
async def ends(port: int, *ranks: int, **more: int) -> AsyncIterator[list[End]]:
    made = [End(rank, port, **more) for rank in ranks]
    try:
        yield made
    finally:
        for end in made:
            end.transport.close()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread and no descriptor stays behind."""

    def there() -> tuple[int, int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    before = there()
    yield
    for _ in range(100):  # a thread that has ended is listed a little longer
        if all(now <= then for now, then in zip(there(), before, strict=True)):
            return
        time.sleep(0.01)
    assert there() == before


def test_what_has_arrived_and_was_not_read_is_known(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0, 1, 2) as (receiver, sender, other):
            for each in (sender, other):
                await each.sends(0, model(1))
            await receiver.has(2)
            assert not receiver.transport.holds_any_of([0, 1, 2])
            sender.transport.ship(0, model(2), lambda: None)
            time.sleep(0.01)  # it crosses the kernel, and this process does not look
            held = [rank for rank in range(3) if receiver.transport.holds_any_of([rank])]
            assert held == [1]
            await receiver.has(3)
            assert not receiver.transport.holds_any_of([0, 1, 2])

    asyncio.run(test())


def test_what_is_sent_arrives_whole_with_its_sender_and_in_order(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0, 1, 2) as (a, b, c):
            for round_ in range(5):
                await a.sends(1, model(round_, 10 ** min(round_, 6)))
            rich = Message(
                "x",
                7,
                {"degree": 3, "list": [1, 2], "name": "ü"},
                payload=(np.arange(6, dtype=np.float16).reshape(2, 3), np.zeros(0, np.float32)),
                metadata=(np.arange(4, dtype=np.int32),),
            )
            await c.sends(1, rich)
            await b.has(6)
            from_a = [message for sender, message in b.got if sender == 0]
            assert [message.round for message in from_a] == list(range(5))
            for message in from_a:
                assert np.array_equal(message.payload[0], np.full(10**message.round, message.round, np.float32))
            (other,) = [message for sender, message in b.got if sender == 2]
            assert (other.kind, other.round, dict(other.fields)) == (rich.kind, rich.round, dict(rich.fields))
            assert other.payload[0].dtype == np.float16
            assert np.array_equal(other.payload[0], rich.payload[0])
            assert other.payload[1].size == 0
            assert np.array_equal(other.metadata[0], rich.metadata[0])
            assert await a.transport.all_arrived(5)
            assert not b.transport.refused
            assert a.transport.connections == 1

    asyncio.run(test())


def test_whatever_can_be_sealed_arrives(port: int) -> None:
    most = 1 << 20
    one = np.zeros(1, np.float32)
    extremes = [
        Message("most arrays", 0, payload=(one,) * (MOST_BUFFERS - 1), metadata=(one,)),
        Message("most bytes", 0, payload=(np.zeros(most - 128, np.uint8),)),
        Message("longest header", 0, {"text": "x" * (MAX_HEADER - 128)}),
        Message("all types", 0, payload=tuple(np.ones(3, dtype) for dtype in DTYPES.values())),
    ]

    async def test() -> None:
        async with ends(port, 0, 1, largest=most) as (a, b):
            for message in extremes:
                await a.sends(1, sealed(message, 1, most))
            again = sealed(extremes[1], 1, most).of_kind("sent-again")
            await a.sends(1, again)
            await b.has(5)
            assert [message.kind for _, message in b.got] == [*(each.kind for each in extremes), again.kind]
            assert [each.dtype for each in b.got[3][1].payload] == list(DTYPES.values())
            assert not b.transport.refused

    asyncio.run(test())


def test_little_is_added_to_a_message() -> None:
    message = model(1, 100_000)
    framed = FramedMessage(message)
    assert framed.ahead_bytes <= 200
    assert framed.wire_bytes == message.nbytes + framed.ahead_bytes


@pytest.mark.parametrize("parameters", [90_000, 1])
def test_the_bytes_on_the_wire_are_few_more_than_the_messages_own(port: int, parameters: int) -> None:
    """A socket of the test's own counts what really comes, the connection's opening apart."""

    async def test() -> None:
        server = Greeter(addresses()[1], port)
        message = model(3, parameters)
        async with ends(port, 0) as (a,):
            counting = asyncio.ensure_future(asyncio.to_thread(server.count, wanted=message.nbytes))
            await a.sends(1, message)
            data = await counting
            about = len(data) - 4 * parameters
            assert 20 < about <= 200
            if parameters > 1:
                assert len(data) <= 1.001 * 4 * parameters
            assert data.endswith(message.payload[0].tobytes())
            assert len(data) == FramedMessage(message).wire_bytes
        server.close()

    asyncio.run(test())


def greeting(kind: bytes, mechanism: bytes = b"NULL") -> bytes:
    """How a socket of some kind opens a connection."""
    properties = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return (
        b"\xff"
        + bytes(8)
        + b"\x7f\x03\x00"
        + mechanism.ljust(52, b"\0")
        + b"\x04"
        + bytes([len(properties)])
        + properties
    )


GREETING = greeting(b"PULL")


def after_opening(connection: socket.socket) -> bytes:
    """Wait until the other end has said all that it has to before its first message; what came after that.

    Before that no message may be sent: ZeroMQ takes a sender that has not finished the handshake for a foreign program.
    """
    data, opening = b"", 64 + 2
    while len(data) < opening or len(data) < opening + data[opening - 1]:
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionResetError("cut off")
        data += more
    return data[opening + data[opening - 1] :]


class Greeter:
    """Speaks just enough of ZeroMQ's protocol to be sent messages."""

    def __init__(self, address: str, port: int) -> None:
        self._listener = socket.create_server((address, port))

    def count(self, wanted: int) -> bytes:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(5)
            connection.sendall(GREETING)
            data = after_opening(connection)
            while len(data) < wanted + 1:
                data += connection.recv(1 << 20)
            connection.settimeout(0.3)
            try:
                while more := connection.recv(1 << 20):
                    data += more
            except TimeoutError:
                pass
            return data

    def close(self) -> None:
        self._listener.close()


def test_on_left_comes_once_and_not_before_a_peer_is_there(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0) as (a,):
            calls: list[float] = []
            a.transport.ship(1, model(1), lambda: calls.append(0))
            await asyncio.sleep(0.3)
            assert not calls
            assert not await a.transport.all_arrived(0.01)
            async with ends(port, 1) as (b,):
                await b.has(1)
                assert await a.transport.all_arrived(5)
                assert len(calls) == 1
                assert b.got[0][0] == 0

    asyncio.run(test())


def test_aborting_before_anything_left_sends_nothing(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0) as (a,):
            first = a.transport.ship(1, model(1), lambda: pytest.fail("it never left"))
            assert first.abort() == 0
            assert await a.transport.all_arrived(1)
            async with ends(port, 1) as (b,):
                await a.sends(1, model(2))
                await b.has(1)
                assert [message.round for _, message in b.got] == [2]

    asyncio.run(test())


def test_aborting_under_way_says_what_left_and_the_next_message_is_whole(port: int) -> None:
    async def test() -> None:
        server = socket.create_server((addresses()[1], port))
        async with ends(port, 0) as (a,):
            message = model(1, 20_000_000)
            shipment = a.transport.ship(1, message, lambda: pytest.fail("it never left whole"))
            peer, taken = await asyncio.to_thread(_take_some, server, 100_000)
            left = shipment.abort()
            assert taken <= left < message.nbytes
            # What had not left yet never does.
            peer.settimeout(5)
            taken += _rest(peer)
            # (The kernel goes on for some microseconds while it is asked.)
            assert taken <= left + 200_000
            peer.close()
            server.close()
            async with ends(port, 1) as (b,):
                await a.sends(1, model(2))
                await b.has(1)
                assert [message.round for _, message in b.got] == [2]
                assert not b.transport.refused

    asyncio.run(test())


def test_what_the_kernel_has_but_cannot_send_has_not_left(port: int) -> None:
    async def test() -> None:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            server.bind((addresses()[1], port))
            server.listen()
            async with ends(port, 0) as (a,):
                left = asyncio.Event()
                message = model(1, 20_000)
                shipment = a.transport.ship(1, message, left.set)
                peer, taken = await asyncio.to_thread(_take_some, server, 1000)
                await asyncio.sleep(0.3)
                assert not left.is_set()
                assert taken <= shipment.abort() < 40_000
                peer.close()

    asyncio.run(test())


def _take_some(server: socket.socket, wanted: int) -> tuple[socket.socket, int]:
    """Be a peer that takes some of a message and then nothing more; at least how many bytes of it."""
    connection, _ = server.accept()
    connection.sendall(GREETING)
    taken = 0
    while taken < wanted:
        taken += len(connection.recv(10_000))
    return connection, taken - 200


def _rest(connection: socket.socket) -> int:
    """How many bytes still come until the other side ends the connection."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while more := len(connection.recv(1 << 20)):
            count += more
    return count


def test_a_peer_that_comes_back_gets_what_it_missed_once(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0) as (a,):
            async with ends(port, 1) as (b,):
                await a.sends(1, model(1))
                await b.has(1)
                assert await a.transport.all_arrived(5)
            a.transport.ship(1, model(2), lambda: None)
            await asyncio.sleep(0.2)
            async with ends(port, 1) as (b,):
                async with asyncio.timeout(2):
                    await b.has(1)
                await a.sends(1, model(3))
                await b.has(2)
                assert [message.round for _, message in b.got] == [2, 3]
                # A new life of the sender is heard although its numbers begin anew.
                a.transport.close()
                async with ends(port, 0) as (again,):
                    await again.sends(1, model(4))
                    await b.has(3)
                assert not b.transport.refused

    asyncio.run(test())


def test_a_killed_peers_next_life_gets_the_message_that_it_died_in(port: int) -> None:
    """The first life is stopped, so that it takes nothing from the network, and is killed."""

    async def test() -> None:
        server = socket.create_server((addresses()[1], port))
        pid = os.fork()
        if not pid:
            _take_some(server, 100_000)
            os._exit(0)
        server.close()
        async with ends(port, 0) as (a,):
            left: list[int] = []
            a.transport.ship(1, model(9, 5_000_000), lambda: left.append(9))
            await asyncio.to_thread(os.waitpid, pid, 0)
            async with ends(port, 1) as (b,):
                async with asyncio.timeout(3):
                    await b.has(1)
                assert [message.round for _, message in b.got] == [9]
                assert await a.transport.all_arrived(5)
                assert left == [9]

    asyncio.run(test())


class Hostile:
    """A process with a node's address that sends what it likes."""

    def __init__(self, port: int, rank: int = 2, source: str | None = None) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.connect(f"tcp://{source or addresses()[rank]}:0;{addresses()[0]}:{port}")

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def close(self) -> None:
        self._socket.close()
        self._context.term()


GOOD = Message("model", 1).header


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ((b"",), Refusal.MALFORMED),
        ((b"hello",), Refusal.MALFORMED),
        ((Envelope(2, 1, 1).packed(),), Refusal.MALFORMED),
        ((Envelope(2, 1, 1).packed(), b"\xc1nonsense"), Refusal.MALFORMED),
        ((Envelope(2, 1, 1).packed(), GOOD, b"one frame too many"), Refusal.MALFORMED),
        ((Envelope(2, 1, 1).packed(), *[GOOD] * 40), Refusal.MALFORMED),
        ((b"T2" + Envelope(2, 1, 1).packed()[2:], GOOD), Refusal.MALFORMED),
        ((bytes(100_000), GOOD), Refusal.MALFORMED),
        ((Envelope(1, 1, 1).packed(), GOOD), Refusal.IMPOSTOR),
        ((Envelope(0, 1, 1).packed(), GOOD), Refusal.IMPOSTOR),
        ((Envelope(2, 1, 1).packed(), GOOD, bytes(150_000)), Refusal.OVERSIZED),
    ],
)
def test_what_is_no_message_of_its_sender_is_counted_and_dropped(
    port: int, frames: tuple[bytes, ...], kind: Refusal
) -> None:
    async def test() -> None:
        async with ends(port, 0, 1, largest=100_000) as (a, b):
            hostile = Hostile(port)
            hostile.send(*frames)
            await a.refuses(kind)
            hostile.send(Envelope(2, 1, 2).packed(), GOOD)
            await b.sends(0, model(1))
            await a.has(2)
            assert dict(a.transport.refused) == {kind: 1}
            assert sorted(sender for sender, _ in a.got) == [1, 2]
            hostile.close()

    asyncio.run(test())


def test_whoever_has_no_nodes_address_is_a_stranger(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0) as (a,):
            hostile = Hostile(port, source="127.0.0.1")
            hostile.send(Envelope(2, 1, 1).packed(), GOOD)
            await a.refuses(Refusal.STRANGER)
            hostile.close()
            assert not a.got

    asyncio.run(test())


@pytest.mark.parametrize("size", [300_000, 1 << 30, 1 << 40], ids=["too large", "large", "giant"])
def test_a_giant_frame_is_cut_off_before_it_gets_memory(port: int, size: int) -> None:
    """As soon as it says how large it will be, be there memory for it or not."""

    async def test() -> None:
        async with ends(port, 0, 1, largest=100_000) as (a, b):
            with socket.create_connection((addresses()[0], port), source_address=(addresses()[2], 0)) as raw:
                raw.sendall(greeting(b"PUSH"))
                await asyncio.to_thread(after_opening, raw)
                raw.sendall(b"\x02" + struct.pack(">Q", size) + bytes(1000))
                raw.settimeout(5)
                await asyncio.to_thread(_rest, raw)
            await b.sends(0, model(1))
            await a.has(1)

    asyncio.run(test())


@pytest.mark.slow
def test_a_message_without_an_end_is_cut_off_before_it_fills_the_memory(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0, 1, largest=100_000) as (a, b):
            with socket.create_connection((addresses()[0], port), source_address=(addresses()[2], 0)) as raw:
                raw.sendall(greeting(b"PUSH"))
                await asyncio.to_thread(after_opening, raw)
                sent = await asyncio.to_thread(_send_for_ever, raw, b"\x03" + struct.pack(">Q", 1000) + bytes(1000))
            assert 1_000_000 < sent < 50_000_000
            for round_ in range(30):  # who sends as much, but in messages, is not
                await b.sends(0, model(round_, 24_000))
            await asyncio.sleep(1.2)
            await b.sends(0, model(30))
            await a.has(31)
            assert b.transport.connections == 1

    asyncio.run(test())


def _send_for_ever(connection: socket.socket, frame: bytes) -> int:
    """Until the other side ends it, at 10 MB a second; how much it took."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 100_000_000:
            connection.sendall(100 * frame)
            sent += 100 * len(frame)
            time.sleep(0.01)
    return sent


SLOW_S = 0.5
"""What the other end takes to open a connection, where it has 0.1 s of emulated time."""


@pytest.mark.slow
@pytest.mark.parametrize(("time_scale", "connections"), [(20, 1), (1, 2)])
def test_whoever_is_connected_to_has_longer_to_answer_the_longer_all_takes(
    port: int, monkeypatch: pytest.MonkeyPatch, time_scale: int, connections: int
) -> None:
    monkeypatch.setattr("testbed.node.zmq_connection.HANDSHAKE_MS", 100)

    def answers_slowly(listener: socket.socket, kept: contextlib.ExitStack) -> int:
        """How many connections are made, up to two."""
        listener.settimeout(3 * SLOW_S)
        for count in range(2):
            try:
                connection = kept.enter_context(listener.accept()[0])
            except TimeoutError:
                return count
            time.sleep(SLOW_S)
            with contextlib.suppress(ConnectionError):
                connection.sendall(GREETING)
        return 2

    async def test() -> None:
        with socket.create_server((addresses()[1], port)) as listener, contextlib.ExitStack() as kept:
            async with ends(port, 0, time_scale=time_scale) as (a,):
                counting = asyncio.ensure_future(asyncio.to_thread(answers_slowly, listener, kept))
                missing = await a.transport.connect([1], 4 * SLOW_S)
                assert await counting == connections
                assert missing == (() if connections == 1 else (1,))

    asyncio.run(test())


@pytest.mark.parametrize(("time_scale", "arrive"), [(200, True), (1, False)])
def test_whoever_connects_has_longer_to_say_who_it_is_the_longer_all_takes(
    port: int, monkeypatch: pytest.MonkeyPatch, time_scale: int, arrive: bool
) -> None:
    monkeypatch.setattr("testbed.node.zmq_inbox.HANDSHAKE_MS", 100)
    envelope = Envelope(2, 1, 1).packed()

    def connects_slowly() -> bool:
        """Whether it was not cut off."""
        with socket.create_connection((addresses()[0], port), 5, source_address=(addresses()[2], 0)) as raw:
            time.sleep(SLOW_S)
            with contextlib.suppress(ConnectionError):
                raw.sendall(greeting(b"PUSH"))
                after_opening(raw)
                raw.sendall(b"\x01" + bytes([len(envelope)]) + envelope + b"\x00" + bytes([len(GOOD)]) + GOOD)
                raw.settimeout(0.3)
                try:
                    while raw.recv(1 << 16):
                        pass
                except TimeoutError:
                    return True
            return False

    async def test() -> None:
        async with ends(port, 0, time_scale=time_scale) as (a,):
            assert await asyncio.to_thread(connects_slowly) == arrive
            assert len(a.got) == arrive

    asyncio.run(test())


def test_a_silent_sender_is_asked_after_the_later_the_longer_all_takes(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0, time_scale=7) as (a,), ends(port, 1) as (b,):
            await b.sends(0, model(1))
            await a.has(1)
            assert set(_kept_alive(port)) == {(7 * 30, 7 * 10, 3)}

    asyncio.run(test())


def _kept_alive(port: int) -> Iterator[tuple[int, ...]]:
    """Seconds of silence, seconds between questions, and how many: of connections that were made to this port."""
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                if found.family == socket.AF_INET and found.getpeername() and found.getsockname()[1] == port:
                    yield tuple(found.getsockopt(socket.IPPROTO_TCP, option) for option in options)


def test_another_protocol_is_counted(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0) as (a,):
            with socket.create_connection((addresses()[0], port), source_address=(addresses()[2], 0)) as raw:
                raw.sendall(greeting(b"PUSH", b"NONSENSE"))
                await a.refuses(Refusal.FOREIGN)

    asyncio.run(test())


def test_a_number_that_was_here_is_a_duplicate(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0) as (a,):
            hostile = Hostile(port)
            for life, number in ((1, 1), (1, 2), (1, 2), (1, 1), (2, 1), (1, 3)):
                hostile.send(Envelope(2, life, number).packed(), GOOD)
            await a.has(4)
            await a.refuses(Refusal.DUPLICATE, 2)
            hostile.close()

    asyncio.run(test())


def test_a_message_that_nobody_would_take_is_not_sent(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0, largest=1000) as (a,):
            with pytest.raises(ValueError, match="at most 1000"):
                a.transport.ship(1, model(1, 1000), lambda: None)

    asyncio.run(test())


def test_a_taken_address_is_an_error_that_leaves_nothing(port: int) -> None:
    async def test() -> None:
        async with ends(port, 0):
            with pytest.raises(OSError, match="in use"):
                End(0, port)

    asyncio.run(test())


@pytest.mark.slow
def test_a_stopped_peer_gets_everything_once_when_it_goes_on(port: int) -> None:
    """It is tried anew meanwhile, which must not cost anything."""

    async def test() -> None:
        ready, tell = os.pipe()
        pid = os.fork()
        if not pid:
            asyncio.run(_be_peer(port, tell))
            os._exit(0)
        os.close(tell)
        await asyncio.to_thread(os.read, ready, 1)
        async with ends(port, 0) as (a,):
            await a.sends(1, model(0))
            os.kill(pid, signal.SIGSTOP)
            a.transport.ship(1, model(1, 3_000_000), lambda: None)
            await asyncio.sleep(1.6)
            os.kill(pid, signal.SIGCONT)
            assert await a.transport.all_arrived(10)
            await a.sends(1, model(2))
            told = await asyncio.to_thread(os.read, ready, 100)
            assert told == b"0 1 2 0"
            os.close(ready)
            await asyncio.to_thread(os.waitpid, pid, 0)

    asyncio.run(test())


@pytest.mark.slow
def test_a_peer_that_stood_still_does_not_take_what_waited_for_greed(port: int) -> None:
    """When it goes on the kernel has far more for it than any message has bytes."""
    count = 30

    async def test() -> None:
        ready, tell = os.pipe()
        pid = os.fork()
        if not pid:
            asyncio.run(_stands_still(port, tell, count))
            os._exit(0)
        os.close(tell)
        await asyncio.to_thread(os.read, ready, 1)
        async with ends(port, 0, largest=LARGEST) as (a,):
            for round_ in range(count):
                if round_ == count // 3:
                    os.kill(pid, signal.SIGSTOP)
                a.transport.ship(1, model(round_, LARGEST // 4 - 100), lambda: None)
                await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            os.kill(pid, signal.SIGCONT)
            assert await a.transport.all_arrived(10)
            told = await asyncio.to_thread(os.read, ready, 1000)
            os.close(ready)
            await asyncio.to_thread(os.waitpid, pid, 0)
            assert told.decode() == f"{[*range(count)]} 0"

    asyncio.run(test())


LARGEST = 340_000


async def _stands_still(port: int, tell: int, count: int) -> None:
    async with ends(port, 1, largest=LARGEST) as (b,):
        os.write(tell, b"r")
        with contextlib.suppress(TimeoutError):
            await b.has(count)
        rounds = [message.round for _, message in b.got]
        os.write(tell, f"{rounds} {b.transport.refused.get(Refusal.GREEDY, 0)}".encode())


async def _be_peer(port: int, tell: int) -> None:
    async with ends(port, 1) as (b,):
        os.write(tell, b"r")
        await b.has(3)
        await asyncio.sleep(0.2)
        rounds = " ".join(str(message.round) for _, message in b.got)
        os.write(tell, f"{rounds} {b.transport.refused.get(Refusal.DUPLICATE, 0)}".encode())


def test_envelopes() -> None:
    envelope = Envelope(5, 2**63, 77)
    assert opened(envelope.packed()) == envelope
    assert opened(envelope.packed() + b"x") is None
    assert opened(b"") is None
    assert [len(frame_head(size, more=False)) for size in (0, 255, 256)] == [2, 2, 9]
