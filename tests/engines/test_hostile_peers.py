"""Peers that storm another one's port or lie in their messages, over the real network, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import zmq

from testbed.node.messages import Message
from testbed.node.zmq_frames import Envelope
from testbed.node.zmq_transport import PORT
from testbed.plan.addresses import address
from tests.engines.test_node_tcp import End, run
from tests.engines.world import links, needs_network, world

pytestmark = needs_network

EVERYBODY = [(f"n.{rank}", "hub", {"latency": "5ms", "rate": "unlimited"}) for rank in range(3)]
ROUNDS = 20


def test_a_peers_port_that_is_stormed_still_serves_the_others(tmp_path: Path) -> None:
    """Thousands of connections that say nothing, or nonsense; from one address only a few are kept."""
    with world(links(3, EVERYBODY, ("hub",)), tmp_path) as made:
        victim, storm = made.node(0, run(is_stormed, 0, 3)), made.node(1, storms(address(0), 2000))
        honest = made.node(2, run(sends_all_the_while, 2, 3))
        victim.start()
        storm.start()
        honest.start()
        assert honest.result() == 1
        rounds, descriptors, grown_bytes, told = victim.result()
        storm.result()
    assert rounds == list(range(ROUNDS))
    assert descriptors < 500
    assert grown_bytes < 100 << 20
    greedy = [count for kind, sender, count in told if (kind, sender) == ("greedy", 1)]
    assert greedy == [1 << place for place in range(len(greedy))]
    assert len(greedy) >= 10
    assert [kind for kind, *_ in told].count("foreign-protocol") >= 1
    assert {kind for kind, *_ in told} <= {"greedy", "foreign-protocol"}


def test_who_claims_to_be_another_or_sends_what_is_too_large_is_refused_by_its_address(tmp_path: Path) -> None:
    with world(links(3, EVERYBODY, ("hub",)), tmp_path) as made:
        victim, liar = made.node(0, run(is_stormed, 0, 3)), made.node(1, lies_in_messages(address(0)))
        honest = made.node(2, run(sends_all_the_while, 2, 3))
        victim.start()
        liar.start()
        honest.start()
        honest.result()
        rounds, *_, told = victim.result()
    assert rounds == list(range(ROUNDS))
    assert sorted(told) == sorted([["impostor", 1, 1], ["malformed", 1, 1], ["malformed", 1, 2], ["oversized", 1, 1]])


# -- what nodes do -----------------------------------------------------------------------------------------------------


def storms(dest: str, count: int) -> Callable[[], int]:
    """Begins connections, many at a time, and keeps them; into some of them goes noise, if they still are."""

    def work() -> int:
        draw, kept, refused = Random(7), [], 0  # noqa: S311
        for number in range(count):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex((dest, PORT))
            kept.append(connection)
            if number % 100 == 99:
                time.sleep(0.06)
                for each in kept[-20:]:
                    try:
                        each.send(draw.randbytes(200))
                    except OSError:
                        refused += 1
        return refused

    return work


async def is_stormed(end: End) -> list[object]:
    """Until the honest peer is done: its rounds, the most descriptors and memory at any time, and what was refused."""
    most, before = 0, resident_bytes()
    while not end.done.is_set():
        most = max(most, len(os.listdir("/proc/self/fd")))
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    return [end.rounds, most, resident_bytes() - before, end.told]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def sends_all_the_while(end: End) -> int:
    await end.transport.connect([0], 30)
    for round_ in range(ROUNDS):
        end.transport.ship(0, Message("model", round_, payload=(np.full(10_000, round_, np.float32),)), lambda: None)
        await asyncio.sleep(0.1)
    await end.says_done(0)
    return end.transport.connections


def lies_in_messages(dest: str) -> Callable[[], None]:
    def work() -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as liar:
            liar.connect(f"tcp://{dest}:{PORT}")
            header = Message("model", 1).header
            for frames in (
                [Envelope(2, 1, 1).packed(), header],
                [b"noise"],
                [Envelope(1, 1, 2).packed(), header, b"and more"],
                [Envelope(1, 1, 3).packed(), header, bytes(1 << 20)],
            ):
                liar.send_multipart(frames)

    return work
