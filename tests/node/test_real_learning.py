"""Learning on real data, over real sockets and in real time: the models are those of virtual time, bit for bit."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from testbed.node.data.experiment_data import partition_data
from testbed.node.data.partition import test_parts as parts_to_test
from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.life import Life, Reason
from testbed.node.node import Node
from testbed.node.real_clock import RealClock
from testbed.node.real_compute import Own, RealCompute
from testbed.node.snapshots import newest_snapshot
from testbed.node.trainer_of import make_trainer
from testbed.node.world import Vector
from testbed.node.zmq_transport import ZmqTransport
from testbed.plan.files import split
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord
from tests.node.small_world import BUILD, MemoryJournal
from tests.runtimes import sim_runs

NODES = 3
ROUNDS = 3


NETWORK = f"127.{1 + os.getpid() // 256 % 200}.{os.getpid() % 256}"
"""Of this process alone: tests run side by side."""


class Learning:
    """All nodes of a plan in one process, each with a trainer and a thread of its own."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.nodes: list[Node] = []
        self.journals = [MemoryJournal() for _ in range(NODES)]

    def recorded(self, rank: int, record: AnyRecord) -> None: ...

    def model(self, rank: int, round_: int, vector: Vector) -> None: ...

    async def run(self) -> list[Reason]:
        addresses = [f"{NETWORK}.{rank + 1}" for rank in range(NODES)]
        with socket.socket() as probe:
            probe.bind((addresses[0], 0))
            port = int(probe.getsockname()[1])
        plan = self.plan
        data = partition_data(plan.experiment, NODES, plan.seed)
        tests = evaluation_parts(data.dataset, parts_to_test(data.dataset, data.parts), 100, plan.seed)
        clock = RealClock(time.monotonic())
        transports, computes = [], []
        for own_plan in split(plan):
            rank = own_plan.node.rank
            trainer = make_trainer(plan.experiment, data.dataset, plan.seed)
            own = Own(trainer, data.parts[rank], tests[rank], "test", rooted_loss=False, evaluation_s=0.01)
            computes.append(RealCompute(own, own_plan, clock))
            transports.append(
                ZmqTransport(
                    rank,
                    addresses,
                    port,
                    lambda sender, message, rank=rank: self.nodes[rank].mailbox.put(sender, message),  # type: ignore[misc]
                )
            )
            self.nodes.append(
                Node(
                    own_plan,
                    clock=clock,
                    transport=transports[-1],
                    compute=computes[-1],
                    journal=self.journals[rank],
                    observer=self,
                )
            )
        try:
            async with asyncio.timeout(30):
                return list(await asyncio.gather(*[Life(node, BUILD).live(_nobody) for node in self.nodes]))
        finally:
            for compute in computes:
                compute.close()
            for transport in transports:
                transport.close()


async def _nobody() -> None: ...


@pytest.mark.parametrize("mode", ["paced", "measured"])
def test_what_is_learnt_is_what_is_learnt_in_virtual_time(tmp_path: Path, mode: str) -> None:
    plan = sim_runs.plan_of(
        sim_runs.star(NODES),
        stop={"rounds": ROUNDS},
        snapshots={"every": ROUNDS},
        compute={"ms_per_step": 5},
        training={"lr": 0.1, "batch": 8, "steps": 2, "momentum": 0.9},
    )
    directory, _ = sim_runs.run(plan, tmp_path)
    compute = plan.experiment.compute.model_copy(update={"mode": mode})
    plan = plan.model_copy(update={"experiment": plan.experiment.model_copy(update={"compute": compute})})
    real = Learning(plan)
    assert set(asyncio.run(real.run())) == {Reason.FINISHED}
    for node, journal in zip(real.nodes, real.journals, strict=True):
        saved = newest_snapshot(directory.node(node.name).snapshots, node.model.size)
        assert saved is not None
        assert np.array_equal(node.model, saved.vector), node.name
        assert sum(b'"evaluation"' in line for line in journal.lines) == 2
