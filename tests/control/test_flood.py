"""A node that says far more to control than anybody does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from pathlib import Path

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.control.token_bucket import BURST, RATE_PER_S, TokenBucket
from testbed.protocol.message import encode
from testbed.protocol.nodes import Ready, Recorded
from testbed.records import Event, line
from tests.runtimes.sim_runs import plan_of

TURNS = 2000
PAIR = """
services: {n: {replicas: 2}}
links: [{from: n.0, to: n.1, latency: 1ms, rate: 1Gbps}]
"""


def test_a_flood_of_words_costs_control_little_and_is_in_its_log(tmp_path: Path) -> None:
    """Two nodes: one says far more than anybody does, and never stops; the other becomes ready."""
    log = ControlLog(tmp_path / "events.jsonl")
    (flooding, theirs), (honest, mine) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    flooding.setblocking(False)
    word = encode(Recorded(line(Event(1.0, "noise", "x" * 1000))))

    async def body() -> int:
        control = Control(plan_of(PAIR), log)
        for rank, connection in enumerate((theirs, mine)):
            control.started(rank, rank + 1)
            control.connections.connect(rank, connection)
        ready, taken = asyncio.ensure_future(control.all_ready([1])), 0
        for turn in range(TURNS):
            with contextlib.suppress(BlockingIOError):
                while True:
                    flooding.send(word)
                    taken += 1
            if turn == TURNS // 2:
                honest.send(encode(Ready()))
            await asyncio.sleep(0)
        assert await ready
        control.close()
        return taken

    begun_s = time.monotonic()
    taken = asyncio.run(body())
    elapsed_s = time.monotonic() - begun_s
    log.close()
    flooding.close()
    honest.close()
    assert BURST <= taken <= BURST + RATE_PER_S * elapsed_s + 1000
    told = [json.loads(each) for each in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [each["what"] for each in told if each["node"] == "n.0"] == ["joined", "flood"]


def test_a_token_bucket_is_used_up_and_comes_back() -> None:
    told: list[bool] = []
    bucket = TokenBucket(lambda: told.append(True), burst=10, rate_per_s=5)
    assert [bucket.spend(0.0) > 0 for _ in range(12)] == [False] * 9 + [True] * 3
    assert told == [True]
    assert [bucket.spend(1.0) > 0 for _ in range(4)] == [False, False, True, True]
    assert [bucket.spend(100.0) > 0 for _ in range(10)] == [False] * 9 + [True]
    assert told == [True]
