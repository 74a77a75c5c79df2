"""Messages over a slow and long link between two real network namespaces: what leaves, what still leaves, how fast.

The link is that of scripts/measure-tcp, whose figures for plain TCP are the measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import importlib.util
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from testbed.node.messages import Message
from testbed.node.zmq_tcp_info import cut_off
from testbed.node.zmq_transport import PORT, ZmqTransport

ROOT = Path(__file__).parents[2]
MODEL_PARAMETERS = 83_754
PEERS = 10
ADDRESSES = ["198.18.0.1", "198.18.0.2", *(f"198.18.1.{number}" for number in range(2, PEERS + 1))]
"""The sender, and all that live in the other namespace."""
DEVICE = b"measure0"
SIOCSIFADDR, SIOCSIFNETMASK = 0x8916, 0x891C


def link() -> ModuleType:
    """The script as a module."""
    loader = SourceFileLoader("measure_tcp", str(ROOT / "scripts" / "measure-tcp"))
    spec = importlib.util.spec_from_loader("measure_tcp", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def why_not() -> str | None:
    """What this machine denies."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened"
    pid = os.fork()
    if not pid:
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.unshare(0x40000000 if os.getuid() == 0 else 0x50000000)
        os._exit(ctypes.get_errno() if failed else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"no network namespace: {errno.errorcode.get(code, code)}" if code else None


@pytest.fixture
def tcp() -> ModuleType:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    return link()


Work = Callable[[ZmqTransport, socket.socket], Awaitable[object]]
Others = Callable[[socket.socket], Coroutine[None, None, None]]


def between(tcp: ModuleType, rtt_ms: float, rate_bps: float | None, work: Work, others: Others | None = None) -> object:
    """What the work of a node at one end gives, when all its peers are at the other end of a link."""
    sender, sender_relay = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receiver, receiver_relay = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arrivals, arrived = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send() -> None:
        tcp.enter_namespace()
        socket.send_fds(sender, [b"tun"], [tcp.open_tun(ADDRESSES[0])])
        arrivals.recv(16)
        sender.send(json.dumps(tcp.Case(rtt_ms, 0.0, rate_bps, 0, 0)._asdict()).encode())
        sender.recv(16)
        told = asyncio.run(_with_transport(work, arrivals))
        sender.send(b"!" + json.dumps([told]).encode())

    def receive() -> None:
        tcp.enter_namespace()
        socket.send_fds(receiver, [b"tun"], [tcp.open_tun(ADDRESSES[1])])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for number, address in enumerate(ADDRESSES[2:]):
                name = DEVICE + b":%d" % number
                packed = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
                fcntl.ioctl(control, SIOCSIFADDR, packed)
        asyncio.run((others or listen)(arrived))

    children = []
    try:
        children.append(tcp.child(receive))
        children.append(tcp.child(send))
        sender.close()
        (told,) = tcp.relay(sender_relay, receiver_relay, 1)
        return told
    finally:
        for process in children:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for end in (sender_relay, receiver, receiver_relay, arrivals, arrived):
            end.close()


async def _with_transport(work: Work, arrivals: socket.socket) -> object:
    transport = ZmqTransport(0, ADDRESSES, PORT, lambda _sender, _message: None)
    arrivals.setblocking(False)
    return await work(transport, arrivals)


async def listen(arrived: socket.socket) -> None:
    """Be all other nodes; tell of every message when it is there."""

    def receive(_sender: int, message: Message) -> None:
        arrived.send(struct.pack("<id", message.round, time.monotonic()))

    listening = [ZmqTransport(rank, ADDRESSES, PORT, receive) for rank in range(1, len(ADDRESSES))]
    arrived.send(b"ready")
    await asyncio.sleep(60)
    del listening


def bytes_out() -> int:
    """That have left this namespace."""
    (line,) = [line for line in Path("/proc/self/net/dev").read_text().splitlines() if DEVICE.decode() in line]
    return int(line.split(":")[1].split()[8])


def model(round_: int, parameters: int = MODEL_PARAMETERS) -> Message:
    return Message("model", round_, payload=(np.zeros(parameters, np.float32),))


async def flush(transport: ZmqTransport, arrivals: socket.socket) -> object:
    """Hand over ten models, give them up after 100 ms: what the transport says has left, and what still leaves."""
    loop = asyncio.get_running_loop()
    for rank in range(1, PEERS + 1):  # connections are there already
        transport.ship(rank, Message("hello", 0), lambda: None)
    for _ in range(PEERS):
        await loop.sock_recv(arrivals, 16)
    await asyncio.sleep(0.1)
    before = bytes_out()
    shipments = [transport.ship(rank, model(1), lambda: None) for rank in range(1, PEERS + 1)]
    await asyncio.sleep(0.1)
    begun = time.monotonic()
    said = sum(shipment.abort() for shipment in shipments)
    took_s = time.monotonic() - begun
    at_flush = bytes_out()
    await asyncio.sleep(1.0)
    still = bytes_out() - at_flush
    transport.ship(1, model(2), lambda: None)
    round_ = -1
    while round_ != 2:
        round_, _ = struct.unpack("<id", await asyncio.wait_for(loop.sock_recv(arrivals, 16), 5))
        assert round_ != 1, "a message that was given up must not arrive"
    return {"said": said, "left": at_flush - before, "still": still, "abort_ms": took_s * 1000}


@pytest.mark.slow
def test_little_of_what_is_given_up_still_leaves(tcp: ModuleType) -> None:
    told = between(tcp, 40, 12e6, flush)
    assert isinstance(told, dict)
    assert told["still"] <= 64_000
    whole = PEERS * MODEL_PARAMETERS * 4
    # Headers of packets come on top of what it counts.
    assert 0.85 * told["left"] - 10_000 <= told["said"] <= told["left"] + 10_000 < whole


async def one_large(transport: ZmqTransport, arrivals: socket.socket) -> object:
    """Seconds until 10 MB have left, and until they have arrived, on a connection that is there but new."""
    loop = asyncio.get_running_loop()
    transport.ship(1, Message("hello", 0), lambda: None)
    await loop.sock_recv(arrivals, 16)
    await asyncio.sleep(0.3)
    begun = time.monotonic()
    left_s: list[float] = []
    transport.ship(1, model(1, 2_500_000), lambda: left_s.append(time.monotonic() - begun))
    _, there_s = struct.unpack("<id", await asyncio.wait_for(loop.sock_recv(arrivals, 16), 30))
    return {"left_s": left_s[0], "arrived_s": there_s - begun}


@pytest.mark.slow
def test_a_large_message_fills_a_long_link_and_has_left_when_its_last_byte_has(tcp: ModuleType) -> None:
    told = between(tcp, 200, 100e6, one_large)
    assert isinstance(told, dict)
    rows = json.loads((ROOT / "tests" / "network" / "tcp_measured.json").read_text())["rows"]
    (plain,) = [
        row
        for row in rows
        if (row["rtt_ms"], row["rate_bps"], row["size_bytes"], row["connection"]) == (200, 100e6, 10_000_000, "fresh")
    ]
    # A fresh connection of plain TCP needs one round trip to open.
    assert told["arrived_s"] <= 1.15 * plain["median_s"]
    assert told["arrived_s"] >= 0.8 + 0.1
    # The last byte needs at least half a round trip.
    assert 0.0 < told["left_s"] <= told["arrived_s"] - 0.09


async def say_hello(transport: ZmqTransport, arrivals: socket.socket) -> object:
    """How many connections it took until a peer had heard something."""
    transport.ship(1, Message("hello", 0), lambda: None)
    await asyncio.wait_for(asyncio.get_running_loop().sock_recv(arrivals, 16), 10)
    assert await transport.all_arrived(5)
    return transport.connections


@pytest.mark.slow
@pytest.mark.parametrize("rtt_ms", [300, 150])
def test_a_peer_is_reached_however_long_the_way_is(
    tcp: ModuleType, monkeypatch: pytest.MonkeyPatch, rtt_ms: float
) -> None:
    """One and a half times as long as an attempt lasts, and less: as if it were ten times as much."""
    monkeypatch.setattr("testbed.node.zmq_connection._ATTEMPT_MS", 200)
    monkeypatch.setattr("testbed.node.zmq_connection._PATIENT_MS", 6000)
    assert between(tcp, rtt_ms, None, say_hello) == 1


async def one_life_after_another(arrived: socket.socket) -> None:
    """Rank 1 lives, is cut off and dies without a word, and is back after some seconds."""

    something = asyncio.Event()

    def receive(_sender: int, message: Message) -> None:
        arrived.send(struct.pack("<id", message.round, time.monotonic()))
        something.set()

    first = ZmqTransport(1, ADDRESSES, PORT, receive)
    arrived.send(b"ready")
    await something.wait()
    await asyncio.sleep(0.5)
    die_without_a_word()
    first.close()
    arrived.send(struct.pack("<id", -1, time.monotonic()))
    # When the kernel has just sent once more, and would only try again much later: at 200 ms it begins with 400.
    await asyncio.sleep(6.6)
    live_at(ADDRESSES[1])
    second = ZmqTransport(1, ADDRESSES, PORT, receive)
    arrived.send(struct.pack("<id", -2, time.monotonic()))
    await asyncio.sleep(60)
    second.close()


def live_at(address: str) -> None:
    """The namespace's only address from now on; there is no answer at any other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.254.0.0")):
            fcntl.ioctl(control, request, struct.pack("16sHH4s8x", DEVICE, socket.AF_INET, 0, socket.inet_aton(value)))


def die_without_a_word() -> None:
    """The kernel forgets all connections of this process; what it would say of that cannot leave."""
    live_at("198.18.77.77")
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.family == socket.AF_INET and connection.getpeername():
                cut_off(connection)


async def send_to_the_dead(transport: ZmqTransport, arrivals: socket.socket) -> object:
    """Seconds after its return until the peer has what was sent to it meanwhile, in its order."""
    loop = asyncio.get_running_loop()
    transport.ship(1, model(1, 1000), lambda: None)
    found: list[tuple[int, float]] = []
    while len(found) < 5:
        found.append(struct.unpack("<id", await asyncio.wait_for(loop.sock_recv(arrivals, 16), 20)))
        if found[-1][0] == -1:

            def then() -> None:
                transport.ship(1, model(3, 1000), lambda: None)

            transport.ship(1, model(2, 1000), then)
    back = dict(found)[-2]
    return {"order": [round_ for round_, _ in found], "after_s": [at - back for _, at in found[3:]]}


@pytest.mark.slow
def test_a_peer_that_died_without_a_word_is_reached_soon_after_its_return(tcp: ModuleType) -> None:
    told = between(tcp, 200, None, send_to_the_dead, one_life_after_another)
    assert isinstance(told, dict)
    assert told["order"] == [1, -1, -2, 2, 3]
    first_s, _ = told["after_s"]
    assert 0 < first_s <= 2.0
