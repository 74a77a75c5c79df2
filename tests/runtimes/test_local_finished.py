"""No node waits for a peer that has finished and is gone."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.protocol.message import encode
from testbed.protocol.nodes import TO_NODE, Finished, Ready, Recorded
from testbed.records import Count, End, Event, line
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

NOTHING = Count()
EARLY = """
import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Early(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            if node.rank:
                await node.sleep(SLEEPS)
                await node.send(0, Message("last", round_, {}, (np.zeros(500_000, np.float32),)))
"""
PATIENCE_S = 20.0
WHOLE_BYTES = 2_000_000


@needs_network
@pytest.mark.parametrize(("sleeps_s", "rate"), [(2.0, "20Mbps"), (0.0, "1Mbps")], ids=["later", "meanwhile"])
def test_what_is_for_a_peer_that_is_done_is_not_waited_for(sleeps_s: float, rate: str, tmp_path: Path) -> None:
    """Node 0 is done at once; the others send to it long after, and would wait for as long as it may be silent.

    Or they are sending to it, and have nothing else to do any more.
    """
    source = tmp_path / "early.py"
    source.write_text(EARLY.replace("SLEEPS", str(sleeps_s)))
    settings = {
        "algorithm": {"name": f"{source}:Early"},
        "missing": {"after": f"{PATIENCE_S:g}s", "then": "wait"},
        "stop": {"rounds": 1},
    }
    directory, outcome = run(plan_of(star(3, rate=rate), **settings), tmp_path)
    assert (outcome.reason, outcome.finished) == ("finished", 3)
    for name in ("node.1", "node.2"):
        found = records(directory, name)
        assert isinstance(found[-1], End)
        assert sleeps_s <= found[-1].t < PATIENCE_S / 4
        # Later, nothing of it has left; meanwhile, less than all.
        assert found[-1].sent.payload < (1 if sleeps_s else WHOLE_BYTES)
        assert not any(isinstance(each, Event) and each.what == "sends-given-up" for each in found)


def test_control_tells_of_those_that_are_done_and_dead_until_they_are_back(tmp_path: Path) -> None:
    log = ControlLog(tmp_path / "events.jsonl")
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(4)]

    def heard() -> list[Finished]:
        mine = pairs[3][1]
        mine.setblocking(False)
        found: list[Finished] = []
        while True:
            try:
                message = TO_NODE.read(mine.recv(65536))
            except BlockingIOError:
                return found
            if isinstance(message, Finished):
                found.append(message)

    async def body() -> None:
        control = Control(plan_of(star(4)), log)
        for rank, (theirs, mine) in enumerate(pairs):
            control.started(rank, rank + 1)
            control.connections.connect(rank, theirs)
            if rank < 3:
                reason = ("finished", "left", "finished")[rank]
                mine.send(encode(Recorded(line(End(1.0, reason, 1, 1, NOTHING, NOTHING)))))
        await asyncio.sleep(0.05)
        assert heard() == []  # their processes live: what is sent to them arrives
        for rank in (0, 1, 2):
            control.died(rank, rank + 1, "exit status 0")
        await asyncio.sleep(0.01)
        assert heard() == [Finished((0, 2))]
        control.started(2, os.getpid())
        assert heard() == [Finished((0,))]
        control.begin()
        pairs[3][1].send(encode(Ready()))  # it was made after that and has not been told
        await asyncio.sleep(0.05)
        assert heard() == [Finished((0,))]
        control.close()

    asyncio.run(body())
    log.close()
    for _, mine in pairs:
        mine.close()


def test_many_that_end_one_by_one_are_told_of_together(tmp_path: Path) -> None:
    log = ControlLog(tmp_path / "events.jsonl")
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]

    async def body() -> list[tuple[int, ...]]:
        control = Control(plan_of(star(40)), log)
        for rank, (theirs, mine) in enumerate(pairs):
            control.started(rank, rank + 1)
            control.connections.connect(rank, theirs)
            if rank:
                mine.send(encode(Recorded(line(End(1.0, "finished", 1, 1, NOTHING, NOTHING)))))
        await asyncio.sleep(0.05)
        for rank in range(1, 40):
            control.died(rank, rank + 1, "exit status 0")
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.2)
        control.close()
        found = []
        while packet := pairs[0][1].recv(65536):
            message = TO_NODE.read(packet)
            assert isinstance(message, Finished)
            found.append(message.ranks)
        return found

    told = asyncio.run(body())
    log.close()
    for _, mine in pairs:
        mine.close()
    assert told[0] == (1,), "the first is told of at once"
    assert told[-1] == tuple(range(1, 40))
    assert len(told) <= 8, "39 deaths took some tenths of a second"
