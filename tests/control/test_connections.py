"""Processes that connect to control before they are announced, or without ever being announced."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from testbed.control import connections
from testbed.control.connections import UnclaimedConnections
from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.errors import PreflightRefused
from testbed.protocol.message import encode
from testbed.protocol.nodes import Unable
from testbed.socket_paths import connect
from tests.runtimes.sim_runs import plan_of, star


def is_closed(theirs: socket.socket) -> bool:
    theirs.setblocking(False)
    try:
        return theirs.recv(1) == b""
    except BlockingIOError:
        return False


def test_a_stranger_is_taken_once_or_sent_away_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(connections, "_MOST", 2)
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(5)]

    async def body() -> list[bool]:
        waiting = UnclaimedConnections()
        waiting.add(1, pairs[0][0])
        waiting.add(1, pairs[1][0])  # the same once more
        waiting.add(2, pairs[2][0])
        waiting.add(3, pairs[3][0])  # one too many
        assert waiting.take(2) is pairs[2][0]
        assert waiting.take(2) is None
        now = [is_closed(theirs) for _, theirs in pairs]
        await asyncio.sleep(0.2)
        assert waiting.take(1) is None
        waiting.add(4, pairs[4][0])  # there is room again
        assert not is_closed(pairs[4][1])
        waiting.close()
        assert is_closed(pairs[4][1])
        return now

    assert asyncio.run(body()) == [False, True, False, True, False]
    assert [is_closed(theirs) for _, theirs in pairs] == [True, True, False, True, True]
    for both in pairs:
        for each in both:
            each.close()


def test_who_calls_only_to_say_why_it_ends_is_heard_though_its_death_is_told_first(tmp_path: Path) -> None:
    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(2)), log)
        control.connections.listen(tmp_path / "c.sock")
        control.started(0, os.getpid())
        with connect(tmp_path / "c.sock") as caller:
            caller.send(encode(Unable("no such device", "load it", refused=True)))
        control.died(0, os.getpid(), "exit status 1")  # the loop has had no turn to let anybody in
        try:
            await control.over()
        finally:
            control.close()
            log.close()

    with pytest.raises(PreflightRefused, match="no such device"):
        asyncio.run(body())
