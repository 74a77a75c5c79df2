"""The start barrier: no node begins before all are ready, and all begin at one moment."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from testbed.control import control as control_module
from testbed.control.control import Control
from testbed.control.health import health_of
from testbed.control.log import ControlLog
from testbed.control.outcome import Outcome
from testbed.errors import ExitCode
from testbed.protocol.message import MAX_MESSAGE_BYTES, Message, ProtocolError, encode
from testbed.protocol.nodes import (
    FROM_NODE,
    TO_NODE,
    Connect,
    Go,
    Halt,
    Hello,
    Left,
    Listening,
    Ready,
    Recorded,
    Unable,
)
from testbed.records import Build, Count, End, Event, Start, line
from testbed.socket_paths import connect
from tests.runtimes.sim_runs import DECODER, plan_of, star

PATIENCE_S = 20.0
NOTHING = Count()
MOST_NONSENSE = 100


@contextmanager
def controlled(folder: Path, nodes: int) -> Iterator[tuple[Control, list[socket.socket]]]:
    """Control, inside a running event loop, and the nodes' ends of their connections."""
    log = ControlLog(folder / "events.jsonl")
    control = Control(plan_of(star(nodes)), log)
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(nodes)]
    for rank, (theirs, mine) in enumerate(pairs):
        mine.setblocking(False)
        control.started(rank, rank + 1)
        control.connections.connect(rank, theirs)
    try:
        yield control, [mine for _, mine in pairs]
    finally:
        control.close()
        log.close()
        for _, mine in pairs:
            mine.close()


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def heard(mine: socket.socket) -> list[Message]:
    found: list[Message] = []
    while True:
        try:
            data = mine.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return found
        if not data:
            return found
        found.append(TO_NODE.read(data))


def events(folder: Path, what: str) -> list[Event]:
    read = [DECODER.decode(text) for text in (folder / "events.jsonl").read_bytes().splitlines()]
    return [each for each in read if isinstance(each, Event) and each.what == what]


def test_nobody_begins_before_the_last_is_ready(tmp_path: Path) -> None:
    async def body() -> None:
        with controlled(tmp_path, 3) as (control, nodes):
            waiting = asyncio.ensure_future(control.all_ready(range(3)))
            for mine in nodes[:2]:
                mine.send(encode(Ready()))
            await some_turns()
            assert not waiting.done()
            nodes[2].send(encode(Ready()))
            async with asyncio.timeout(PATIENCE_S):
                assert await waiting

    asyncio.run(body())


def test_nodes_connect_once_all_of_them_listen(tmp_path: Path) -> None:
    async def body() -> None:
        with controlled(tmp_path, 3) as (control, nodes):
            waiting = asyncio.ensure_future(control.all_ready(range(2)))  # the third one comes later
            nodes[0].send(encode(Listening()))
            await some_turns()
            assert heard(nodes[0]) == []
            nodes[1].send(encode(Listening()))
            await some_turns()
            assert [heard(mine) for mine in nodes[:2]] == [[Connect()]] * 2
            heard(nodes[2])
            nodes[2].send(encode(Listening()))
            await some_turns()
            assert heard(nodes[2]) == [Connect()]
            assert not waiting.done()
            for mine in nodes[:2]:
                mine.send(encode(Ready()))
            async with asyncio.timeout(PATIENCE_S):
                assert await waiting

    asyncio.run(body())


def test_all_are_told_the_same_moment_which_is_still_to_come(tmp_path: Path) -> None:
    async def body() -> None:
        with controlled(tmp_path, 3) as (control, nodes):
            before_s = time.monotonic()
            t0_s = control.begin()
            assert before_s < t0_s < before_s + 60
            assert [heard(mine) for mine in nodes] == [[Go(t0_s)]] * 3
            assert control.at(t0_s - 1.0) == 0.0
            assert control.at(t0_s + 2.0) == pytest.approx(2.0)
            nodes[1].send(encode(Ready()))  # one that comes later hears it when it is ready
            await some_turns()
            assert heard(nodes[1])[-1] == Go(t0_s)

    asyncio.run(body())


def test_a_run_that_ends_before_lets_nobody_begin(tmp_path: Path) -> None:
    async def body() -> None:
        with controlled(tmp_path, 2) as (control, nodes):
            for mine in nodes:
                mine.send(encode(Ready()))
            await some_turns()
            control.stop("failed")
            assert not await control.all_ready(range(2))
            assert heard(nodes[0]) == [Halt("stopped")]

    asyncio.run(body())


def test_a_node_is_known_by_its_process_and_not_by_what_it_says(tmp_path: Path) -> None:
    """A process that was started as node 1 calls before the process of node 0 does."""

    async def body() -> None:
        log = ControlLog(tmp_path / "events.jsonl")
        control = Control(plan_of(star(2)), log)
        control.connections.listen(tmp_path / "c.sock")
        control.started(0, 1)  # not this process
        control.started(1, os.getpid())
        with connect(tmp_path / "c.sock") as caller:
            for word in (Hello(0, 1), Ready()):  # it claims to be the other
                caller.send(encode(word))
            async with asyncio.timeout(PATIENCE_S):
                assert await control.all_ready([1])
            assert not control.nodes[0].is_ready
        control.close()
        log.close()

    asyncio.run(body())


def test_whoever_talks_nonsense_is_noted_once_and_at_last_not_heard_any_more(tmp_path: Path) -> None:
    async def body() -> bool:
        with controlled(tmp_path, 1) as (control, (mine,)):
            for _ in range(MOST_NONSENSE - 1):
                mine.send(b"nonsense")
            await some_turns()
            mine.send(encode(Ready()))
            await some_turns()
            assert control.nodes[0].is_ready, "a few slips are forgiven"
            mine.send(b"nonsense")
            await some_turns()
            try:
                mine.send(encode(Ready()))
            except BrokenPipeError:
                return True
            return False

    assert asyncio.run(body())
    (noted,) = events(tmp_path, "not-understood")
    assert noted.node == "node.0"
    (failed,) = events(tmp_path, "failed")
    assert (failed.node, failed.detail.partition(":")[0]) == ("node.0", "it sent 100 malformed messages; disconnected")


@pytest.mark.parametrize("t", [1e300, float("inf"), float("nan"), -7.0])
def test_no_learners_clock_is_controls(t: float, tmp_path: Path) -> None:
    """Its log can be read whatever time a learner says it is."""

    async def body() -> None:
        with controlled(tmp_path, 2) as (_, (mine, other)):
            for round_, each in ((1, mine), (0, other)):
                each.send(encode(Left(round_, None, t)))
            await some_turns()

    asyncio.run(body())
    lost = events(tmp_path, "average-lost")
    assert {each.t for each in lost} == {0.0}
    assert len(lost) == 2


@pytest.mark.parametrize(
    "after",
    [
        End(2.0, "finished", 1, 1, NOTHING, NOTHING),
        Start(2.0, 1, "node.0", 0, ("learner",), 0, 10, 5, "dpsgd", 1, Build("0", "0", "none")),
    ],
    ids=["end", "start"],
)
def test_a_life_ends_once(after: End | Start, tmp_path: Path) -> None:
    async def body() -> None:
        with controlled(tmp_path, 1) as (_, (mine,)):
            for record in (End(1.0, "finished", 1, 1, NOTHING, NOTHING), after):
                mine.send(encode(Recorded(line(record))))
            await some_turns()

    asyncio.run(body())
    (noted,) = events(tmp_path, "not-understood")
    assert noted.detail == "a life ends once"


def test_no_message_is_larger_than_all_are_allowed_to_be() -> None:
    data = msgspec.msgpack.encode(Recorded(bytes(MAX_MESSAGE_BYTES)))
    with pytest.raises(ProtocolError, match=f"at most {MAX_MESSAGE_BYTES} bytes"):
        FROM_NODE.read(data)
    with pytest.raises(ProtocolError, match="at most"):
        encode(Recorded(bytes(MAX_MESSAGE_BYTES)))
    assert FROM_NODE.read(encode(Recorded(bytes(1000)))) == Recorded(bytes(1000))


@pytest.mark.parametrize(
    "text", [b'{"type":"event","t":1.0,"what":"\xff","detail":""}', b'{"type":"\xaa"}', b"\xff", b""]
)
def test_a_record_that_is_no_text_is_not_understood_and_ends_nothing(text: bytes, tmp_path: Path) -> None:
    async def body() -> None:
        with controlled(tmp_path, 1) as (control, (mine,)):
            mine.send(encode(Recorded(text)))
            mine.send(b"\x81\xa4type\xa1\xaa")  # nor is this a message
            await some_turns()
            assert control.nodes.living == [0]
            assert not control.is_ending

    asyncio.run(body())
    assert len(events(tmp_path, "not-understood")) == 1, "the first one is told"


LEFT = Recorded(line(End(1.0, "left", 1, 1, NOTHING, NOTHING)))


def outcome_after_leaving(
    folder: Path, monkeypatch: pytest.MonkeyPatch, then: Callable[[Control], None], before: Callable[[Control], None]
) -> Outcome:
    """Of a run of one node that leaves."""
    monkeypatch.setattr(control_module, "_SAME_HAND_S", 0.1)

    async def body() -> Outcome:
        with controlled(folder, 1) as (control, (mine,)):
            control.begin()
            before(control)
            mine.send(encode(LEFT))
            await some_turns()
            control.died(0, 1, "exit status 0")
            then(control)
            return await asyncio.wait_for(control.over(), PATIENCE_S)

    return asyncio.run(body())


def test_a_node_that_cannot_write_its_results_breaks_the_run(tmp_path: Path) -> None:
    """A full disk is no node's failure: what was not written cannot be judged."""

    async def body() -> Outcome:
        with controlled(tmp_path, 2) as (control, (mine, _)):
            control.begin()
            mine.send(encode(Unable("cannot write nodes/node.0/journal.jsonl: the disk is full", unwritten=True)))
            await some_turns()
            control.died(0, 1, "exit status 1")
            control.died(1, 2, "killed by SIGKILL")
            return await asyncio.wait_for(control.over(), PATIENCE_S)

    outcome = asyncio.run(body())
    assert outcome.broken == ("node.0: cannot write nodes/node.0/journal.jsonl: the disk is full",)
    assert (health_of(outcome), outcome.exit_code) == ("broken", ExitCode.NODE_FAILED)


def nothing(_: Control) -> None:
    pass


def test_who_leaves_though_nobody_of_the_run_wanted_it_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = outcome_after_leaving(tmp_path, monkeypatch, nothing, nothing)
    assert (outcome.reason, outcome.finished, outcome.exit_code) == ("failed", 0, ExitCode.NODE_FAILED)
    assert "ended by SIGTERM, which came from outside" in outcome.failures[0].failure.message
    assert [each.node for each in events(tmp_path, "failed")] == ["node.0"]


def test_who_leaves_because_it_was_told_to_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_after_leaving(tmp_path, monkeypatch, nothing, lambda control: control.nodes.halt(0, "left"))
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 1, ())


def test_who_is_ended_with_the_whole_run_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Compose, which ends all containers at once."""
    outcome = outcome_after_leaving(tmp_path, monkeypatch, lambda control: control.stop("interrupted"), nothing)
    assert (outcome.reason, outcome.failures) == ("interrupted", ())
