"""The node's own transport between real namespaces: what its messages cost, what still leaves, what is never lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from testbed.engines.namespace import TcpSettings
from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Policy
from testbed.node.zmq_inbox import Refusal
from testbed.node.zmq_tcp_info import cut_off
from testbed.node.zmq_transport import PORT, ZmqTransport
from testbed.plan.addresses import address
from tests.engines.world import links, needs_network, pair, world

pytestmark = needs_network

_Result = TypeVar("_Result")
MODEL_PARAMETERS = 90_000
MODEL_BYTES = 4 * MODEL_PARAMETERS
MESSAGES = 5
PEERS = 10
DONE = "done"


def model(round_: int, parameters: int = MODEL_PARAMETERS) -> Message:
    return Message("model", round_, {"degree": PEERS}, payload=(np.full(parameters, round_, np.float32),))


class End:
    """A node's transport, and the rounds of the models that came."""

    def __init__(self, rank: int, nodes: int) -> None:
        self.rounds: list[int] = []
        self.done = asyncio.Event()
        """A peer has said that it has seen what it wanted to."""
        self.told: list[tuple[Refusal, int | None, int]] = []
        """Of what was refused."""
        self.transport = ZmqTransport(
            rank,
            [address(each) for each in range(nodes)],
            PORT,
            self._receive,
            largest=2 * MODEL_BYTES,
            on_refusal=lambda *what: self.told.append(what),
        )

    def _receive(self, _sender: int, message: Message) -> None:
        assert not message.payload or np.all(message.payload[0] == message.round)
        if message.kind == DONE:
            self.done.set()
        else:
            self.rounds.append(message.round)

    async def says_done(self, *peers: int) -> None:
        for peer in peers:
            self.transport.ship(peer, Message(DONE, 0), lambda: None)
        assert await self.transport.all_arrived(30)


def run(work: Callable[[End], Coroutine[None, None, _Result]], rank: int, nodes: int = 2) -> Callable[[], _Result]:
    """What a node does with its transport, in its own process."""

    async def body() -> _Result:
        end = End(rank, nodes)
        try:
            return await work(end)
        finally:
            end.transport.close()

    return lambda: asyncio.run(body())


def connections(*more: str) -> list[str]:
    """What the kernel tells of every connection to a peer's port, in this namespace."""
    command = ["ss", "-tinOH", *more, "dport", "=", f":{PORT}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def acknowledged_bytes() -> int:
    (line,) = connections()
    return int(line.split("bytes_acked:")[1].split()[0])


# -- bytes -------------------------------------------------------------------------------------------------------------


async def sends_models(end: End) -> list[int]:
    """The kernel's count of bytes that the peer has acknowledged: before all messages, and after."""
    assert await end.transport.connect([1], 30) == ()
    counts = [acknowledged_bytes()]
    for round_ in range(MESSAGES):
        end.transport.ship(1, model(round_), lambda: None)
    assert await end.transport.all_arrived(30)
    counts.append(acknowledged_bytes())
    await end.says_done(1)
    return counts


async def receives(end: End) -> list[object]:
    """Until the sender is done: the rounds that came, how many came again, and what else was refused."""
    async with asyncio.timeout(40):
        await end.done.wait()
    refused = dict(end.transport.refused)
    return [end.rounds, refused.pop(Refusal.DUPLICATE, 0), refused]


def test_a_model_costs_its_own_bytes_and_few_more(tmp_path: Path) -> None:
    with world(pair("5ms"), tmp_path) as made:
        sender, receiver = made.node(0, run(sends_models, 0)), made.node(1, run(receives, 1))
        receiver.start()
        sender.start()
        before, after = sender.result()
        assert receiver.result() == [list(range(MESSAGES)), 0, {}]
        made.finish()
    added = (after - before) / MESSAGES - MODEL_BYTES
    assert 20 < added <= 200
    assert added <= 0.001 * MODEL_BYTES
    assert before < 200  # of ZeroMQ's own opening
    carried = sum(link.get("bytes", 0) for line in made.lines() for link in line["links"] if link["origin"] == "n.0")
    headers = 1 + 52 / 1448  # of IP and TCP
    assert after <= carried <= after * headers + 10_000


# -- connections -------------------------------------------------------------------------------------------------------


async def connects_first(end: End) -> list[object]:
    missing = await end.transport.connect([1, 2], 3)
    there = connections("state", "established")
    before = end.transport.connections
    end.transport.ship(1, model(0, 10), lambda: None)
    assert await end.transport.all_arrived(30)
    await end.says_done(1)
    return [missing, len(there), before, end.transport.connections]


def test_connections_are_up_before_anything_is_sent_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    ends = [(f"n.{rank}", "hub", {"latency": "50ms", "rate": "unlimited"}) for rank in range(3)]
    with world(links(3, ends, ("hub",)), tmp_path) as made:
        sender, receiver = made.node(0, run(connects_first, 0, 3)), made.node(1, run(receives, 1, 3))
        receiver.start()
        sender.start()
        assert sender.result() == [[2], 1, 1, 1]
        assert receiver.result() == [[0], 0, {}]


# -- congestion control ------------------------------------------------------------------------------------------------


async def tells_its_congestion_control(end: End) -> list[str]:
    await end.transport.connect([1], 30)
    end.transport.ship(1, model(0, 10_000), lambda: None)
    assert await end.transport.all_arrived(30)
    used = [word for line in connections() for word in line.split() if word in ("cubic", "reno", "bbr")]
    await end.says_done(1)
    return used


@pytest.mark.parametrize("planned", ["cubic", "reno"])
def test_connections_have_the_congestion_control_of_the_plan(tmp_path: Path, planned: str) -> None:
    with world(pair("5ms"), tmp_path) as made:
        tcp = TcpSettings(congestion=planned)
        sender = made.node(0, run(tells_its_congestion_control, 0), tcp=tcp)
        receiver = made.node(1, run(receives, 1), tcp=tcp)
        receiver.start()
        sender.start()
        assert sender.result() == [planned]
        assert receiver.result() == [[0], 0, {}]


# -- what is given up --------------------------------------------------------------------------------------------------


def bytes_out() -> int:
    """That have left this namespace."""
    (line,) = [line for line in Path("/proc/self/net/dev").read_text().splitlines() if "eth0" in line]
    return int(line.split(":")[1].split()[8])


async def flushes(end: End) -> dict[str, float]:
    peers = list(range(1, PEERS + 1))
    assert await end.transport.connect(peers, 30) == ()
    box = Outbox(end.transport, Policy.FLUSH, None)
    before = bytes_out()
    for peer in peers:
        box.post(peer, model(1))
    await asyncio.sleep(0.1)
    box.cut()
    at_flush = bytes_out()
    counted = box.sent.count().payload
    await asyncio.sleep(1.5)
    still = bytes_out() - at_flush
    for peer in peers:
        box.post(peer, model(2, 10))
    async with asyncio.timeout(30):
        await box.drained()
    await end.says_done(*peers)
    return {"left": at_flush - before, "counted": counted, "still": still}


def test_at_most_64_kb_of_what_is_flushed_still_leave(tmp_path: Path) -> None:
    ends = [(f"n.{rank}", "hub", {"latency": "10ms", "rate": "12Mbps" if not rank else "1Gbps"}) for rank in range(11)]
    with world(links(11, ends, ("hub",)), tmp_path) as made:
        sender = made.node(0, run(flushes, 0, 11))
        receivers = [made.node(rank, run(receives, rank, 11)) for rank in range(1, 11)]
        for receiver in receivers:
            receiver.start()
        sender.start()
        told = sender.result()
        assert [receiver.result() for receiver in receivers] == [[[2], 0, {}]] * PEERS
    assert told["still"] <= 64_000
    # Ten connections that were just made begin with ten segments each.
    assert 50_000 < told["left"] < 1_000_000 < PEERS * MODEL_BYTES
    assert 0.8 * told["left"] - 20_000 <= told["counted"] <= told["left"]


# -- what is never lost ------------------------------------------------------------------------------------------------

LOST_AFTER_S = (0.7, 0.5)
"""Seconds of a connection's life."""
ROUNDS = 40


async def loses_its_connections(end: End) -> int:
    """The kernel forgets the connection again and again, in the middle of a message and with others on their way."""
    assert await end.transport.connect([1], 30) == ()
    for round_ in range(ROUNDS):
        end.transport.ship(1, model(round_, 60_000 if round_ % 4 == 3 else 20_000), lambda: None)
    for number, lives_s in enumerate(LOST_AFTER_S, 1):
        while end.transport.connections < number:
            await asyncio.sleep(0.01)
        await asyncio.sleep(lives_s)
        forget_connections()
    await end.says_done(1)
    return end.transport.connections


def forget_connections() -> None:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            if found.family == socket.AF_INET and found.getpeername()[1] == PORT:
                cut_off(found)


def test_a_connection_lost_in_the_middle_of_a_message_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with world(pair("60ms", "20Mbps"), tmp_path) as made:
        sender, receiver = made.node(0, run(loses_its_connections, 0)), made.node(1, run(receives, 1))
        receiver.start()
        sender.start()
        assert sender.result() >= 1 + len(LOST_AFTER_S)
        rounds, duplicates, refused = receiver.result()
    assert rounds == list(range(ROUNDS))
    assert duplicates >= 1  # what had arrived, but was not known to have, came again
    assert not refused
