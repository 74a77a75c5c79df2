"""Algorithms with work beside `run`, and one in which a node finishes long before the others."""

from __future__ import annotations

BESIDE = """\
import asyncio

from testbed.node.algorithm import Algorithm


class Beside(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            await node.train()
            if node.rank == 1 and round_ == 1:
                {start}

    async def work(self, node):
        await node.sleep(0.1)
        raise ValueError("on purpose")
"""
_WORK_LINE, _RUN_LINE = 15, 11
FAILS = {
    "spawned": ("node.spawn(self.work(node))", "on purpose (ValueError)", _WORK_LINE),
    "bare": ("self.kept = asyncio.create_task(self.work(node))", "on purpose (ValueError)", _WORK_LINE),
    "timer": ("await asyncio.sleep(0.1)", "use node.sleep and timeout_s", _RUN_LINE),
}
"""How it is started, and the words and the line of the failure."""

EARLY = """\
import json

import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Early(Algorithm):
    waits = False

    async def run(self, node):
        async for round_ in node.rounds():
            await node.train()
        if node.rank == 0:
            for number in range(3):
                node.send(node.others, Message("last", number, {}, (np.zeros(50_000, np.float32),)))
            return
        assert not node.finished_peers
        received = 0
        while await node.receive("last", sender=0) is not None:
            received += 1
        node.note("seen", json.dumps([node.now(), received, sorted(node.finished_peers)]))
        gathered = await node.gather([0], 9)
        node.note("gathered", json.dumps([node.now(), len(gathered)]))
        await node.sleep(0.5)
"""
