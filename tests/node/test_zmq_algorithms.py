"""Algorithms over a real network: what synchronous ones learn is what they learn in virtual time, bit for bit."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import cast

import numpy as np
import pytest

from testbed.node.life import Life, Reason
from testbed.node.node import Node
from testbed.node.real_clock import RealClock
from testbed.node.world import Vector
from testbed.node.zmq_transport import ZmqTransport
from testbed.records import AnyRecord
from testbed.runtimes.sim.clock import VirtualClock
from tests.node.small_world import BUILD, MemoryJournal, Quadratic, World, full, plans, ring

WORLDS = {
    "dpsgd": World(4, rounds=5, graph=ring(4), dimension=1000, step_s=lambda learner, _step: 0.001 * learner),
    "dpsgd on changing overlays": World(6, rounds=4, degree=3, dimension=10),
    "dpsgd by a sampler": World(4, rounds=3, degree=3, sampler=4, dimension=10),
    "epidemic local": World(5, {"name": "epidemic", "options": {"mode": "local", "fanout": 2}}, rounds=5),
    "epidemic local, told": World(
        5, {"name": "epidemic", "options": {"mode": "local", "fanout": 2, "round_end": "notify"}}, rounds=5
    ),
    "mosaic": World(5, {"name": "mosaic", "options": {"fanout": 2, "fragments": 3}}, rounds=5),
    "mosaic, told": World(
        5, {"name": "mosaic", "options": {"fanout": 2, "fragments": 3, "round_end": "notify"}}, rounds=5
    ),
    "shatter": World(5, {"name": "shatter", "options": {"virtual_nodes": 3, "degree": 4}}, rounds=5),
    "fedavg": World(4, {"name": "fedavg", "server": "node0", "options": {"participation": 0.5}}, server=True, rounds=5),
    "in parts": World(3, rounds=4, graph=full(3), experiment={"sharing": {"name": "topk", "options": {}}}),
    "parameter server": World(3, {"name": "parameter-server", "server": "node0"}, server=True, rounds=4),
}


NETWORK = f"127.{1 + os.getpid() // 256 % 200}.{os.getpid() % 256}"
"""Of this process alone: tests run side by side."""


class RealWorld:
    """The nodes of a small world, on the loopback."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.addresses = [f"{NETWORK}.{rank + 1}" for rank in range(world.size)]
        with socket.socket() as probe:
            probe.bind((self.addresses[0], 0))
            self.port = int(probe.getsockname()[1])
        self.nodes: list[Node] = []

    def recorded(self, rank: int, record: AnyRecord) -> None: ...

    def model(self, rank: int, round_: int, vector: Vector) -> None: ...

    async def run(self) -> list[Reason]:
        clock = RealClock(time.monotonic())
        transports = []
        inboxes: list[Node | None] = [None] * self.world.size
        try:
            for plan in plans(self.world):
                rank = plan.node.rank
                transport = ZmqTransport(
                    rank,
                    self.addresses,
                    self.port,
                    lambda sender, message, rank=rank: self.nodes[rank].mailbox.put(sender, message),  # type: ignore[misc]
                )
                transports.append(transport)
                node = Node(
                    plan,
                    clock=clock,
                    transport=transport,
                    compute=Quadratic(self.world, cast(VirtualClock, clock), plan.node.learner),
                    journal=MemoryJournal(),
                    observer=self,
                )
                inboxes[rank] = node
                self.nodes.append(node)
            lives = [Life(node, BUILD) for node in self.nodes]
            tasks: list[asyncio.Task[Reason]] = []

            async def others_done(rank: int) -> None:
                while any(not task.done() for other, task in enumerate(tasks) if other != rank):
                    await asyncio.sleep(0.01)

            for rank, life in enumerate(lives):
                tasks.append(asyncio.ensure_future(life.live(lambda rank=rank: others_done(rank))))  # type: ignore[misc]
            async with asyncio.timeout(30):
                reasons = await asyncio.gather(*tasks)
            for transport in transports:
                assert await transport.all_arrived(5)
                assert not transport.refused
            return reasons
        finally:
            for transport in transports:
                transport.close()


@pytest.mark.parametrize("name", WORLDS)
def test_models_are_those_of_virtual_time_bit_for_bit(name: str) -> None:
    world = WORLDS[name]
    virtual = world.run()
    real = RealWorld(world)
    reasons = asyncio.run(real.run())
    assert set(reasons) == {Reason.FINISHED}
    for rank, node in enumerate(real.nodes):
        assert np.array_equal(node.model, virtual.models[rank]), f"rank {rank}"
        end = virtual.end(rank)
        assert node.outbox.sent.count() == end.sent
        assert node.mailbox.received.count() == end.received
