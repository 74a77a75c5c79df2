"""Handlers of messages, waits for one sender or any kind, and kinds that nothing took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.control.progress import ProgressTally
from testbed.node.life import Reason
from testbed.records import Event
from tests.node.small_world import Outcome, World, full

HEAD = """
import json

import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Mine(Algorithm):
    waits = False

"""


def run(body: str, tmp_path: Path, learners: int = 3, rounds: int = 2, **world: object) -> Outcome:
    """A world in which every node runs an algorithm; `body` has its methods."""
    (tmp_path / "mine.py").write_text(HEAD + body)
    made = World(learners, algorithm={"name": f"{tmp_path / 'mine.py'}:Mine"}, graph=full(learners), rounds=rounds)
    for name, value in world.items():
        setattr(made, name, value)
    return made.run()


def noted(outcome: Outcome, rank: int, what: str) -> list[str]:
    return [each.detail for each in outcome.events(rank) if each.what == what]


HANDLES = """
    async def run(self, node):
        self.node, self.seen = node, []
        node.on("plain", self.plain)
        node.on("slow", self.slow)
        async for round_ in node.rounds():
            node.send(node.others, Message("plain", round_))
            node.send(node.others, Message("slow", round_))
            await node.train()
            await node.sleep(1.0)
            assert node.arrived() == []
        node.note("seen", json.dumps(self.seen))

    def plain(self, received):
        self.seen.append([received.sender, received.message.kind, received.round])

    async def slow(self, received):
        self.seen.append([received.sender, "began", received.round])
        await self.node.sleep(0.1)
        self.seen.append([received.sender, "slow", received.round])
"""


def test_messages_are_handled_one_at_a_time_by_arrival_then_rank(tmp_path: Path) -> None:
    (seen,) = noted(run(HANDLES, tmp_path), 1, "seen")
    both = [
        [
            [0, "plain", each],
            [2, "plain", each],
            [0, "began", each],
            [0, "slow", each],
            [2, "began", each],
            [2, "slow", each],
        ]
        for each in range(2)
    ]
    assert json.loads(seen) == [*both[0], *both[1]]


def test_waiting_beside_the_rounds_is_no_time_of_a_round(tmp_path: Path) -> None:
    """Handlers sleep for 0.2 s in each round, the rounds' own task for 1 s."""
    outcome = run(HANDLES, tmp_path)
    assert [each.phases.wait for each in outcome.rounds(1)] == pytest.approx([1.0, 1.0])
    assert [each.phases.train for each in outcome.rounds(1)] == pytest.approx([0.01, 0.01])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_the_order_of_nodes_within_an_instant_changes_nothing(order: list[int], tmp_path: Path) -> None:
    assert run(HANDLES, tmp_path, order=order).journals == run(HANDLES, tmp_path).journals


def test_what_came_before_the_handler_is_handled_too(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        node.send(node.others, Message("early", 0))
        await node.sleep(1.0)
        seen = []
        node.on("early", lambda received: seen.append(received.sender))
        async for _ in node.rounds():
            await node.train()
        node.note("seen", json.dumps(seen))
"""
    assert noted(run(body, tmp_path), 1, "seen") == ["[0, 2]"]


def test_a_wait_for_any_kind_leaves_those_of_handlers(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        seen = []
        node.on("word", lambda received: seen.append(received.message.kind))
        async for _ in node.rounds():
            node.send(node.others, Message("word", 0))
            node.send(node.others, Message("other", 0))
            got = [await node.receive(), await node.receive()]
            node.note("got", json.dumps([seen, [each.message.kind for each in got], node.arrived()]))
"""
    assert noted(run(body, tmp_path, rounds=1), 1, "got") == ['[["word", "word"], ["other", "other"], []]']


def test_a_handler_changes_the_model_while_it_trains_and_nothing_is_lost(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        def add(received):
            node.model += received.message.payload[0]
        node.on("more", add)
        async for round_ in node.rounds():
            before = node.model.copy()
            node.send(node.others, Message("more", round_, payload=(np.full(8, 100.0, np.float32),)))
            await node.train()
            node.note("grew", json.dumps(bool(((node.model - before) > 150).all())))
"""
    outcome = run(body, tmp_path, rounds=1, latency_s=lambda _sender, _to: 0.001, rate_bps=1e9)
    assert noted(outcome, 0, "grew") == ["true"]
    assert [each.aggregated for each in outcome.rounds(0)] == [2]


ERRORS = {
    "raises": ("node.on('word', lambda received: 1 / 0)", "division by zero (ZeroDivisionError)"),
    "no function": ("node.on('word', None)", "takes a function of one message, not None"),
    "twice": ("node.on('word', print); node.on('word', print)", "'word' have a handler already"),
    "waits": ("node.on('word', print); await node.receive('word')", "'word' have a handler: nothing else can wait"),
    "gathers": (
        "node.on('word', print); await node.gather(node.others, round_, 'word')",
        "'word' have a handler: nothing else can wait",
    ),
    "takes": ("node.on('word', print); node.arrived('word')", "'word' have a handler: nothing else can wait"),
    "of nodes": ("node.on('goodbye', print)", "`goodbye` is a kind of message that nodes use"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_end_the_node_with_their_line(name: str, tmp_path: Path) -> None:
    line, words = ERRORS[name]
    body = f"""
    async def run(self, node):
        async for round_ in node.rounds():
            node.send(node.others, Message("word", round_))
            {line}
            await node.sleep(1.0)
"""
    outcome = run(body, tmp_path)
    failed = [outcome.end(rank).failure for rank in range(3) if outcome.reasons[rank] is Reason.FAILED]
    assert failed
    for failure in failed:
        assert failure is not None
        assert words in failure.message
        assert (failure.file, failure.line) == ("mine.py", 17)


RECEIVES = """
    async def run(self, node):
        async for round_ in node.rounds():
            if node.rank != 0:
                await node.sleep(0.2 * node.rank)
                node.send(0, Message("word", round_, {"from": node.rank}))
                continue
            second = await node.receive(sender=2)
            first = await node.receive()
            nothing = await node.receive(sender=2, timeout_s=0.05)
            node.note("heard", json.dumps([second.sender, first.sender, nothing]))
"""


def test_a_wait_for_one_sender_leaves_what_others_sent(tmp_path: Path) -> None:
    assert noted(run(RECEIVES, tmp_path, rounds=1), 0, "heard") == ["[2, 1, null]"]


def test_sending_needs_no_await_and_gives_a_ticket_for_each_recipient(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        async for round_ in node.rounds():
            tickets = node.send([*node.others, node.rank], Message("word", round_))
            assert [each.to for each in tickets] == [*node.others, node.rank]
            assert await node.send(np.int64(node.rank), Message("word", round_)) is not None
            assert all([await each.settled() for each in tickets])
            await node.sleep(1.0)
            node.note("heard", json.dumps(sorted(each.sender for each in node.arrived())))
"""
    assert noted(run(body, tmp_path, rounds=1), 1, "heard") == ["[0, 1, 1, 2]"]


def test_training_twice_at_once_goes_one_after_the_other(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        import asyncio
        async for _ in node.rounds():
            before = node.model.copy()
            change, _loss = await asyncio.gather(node.trained_change(2), node.train(1))
            node.note("after", json.dumps([round(node.now(), 6), node.steps, bool(np.array_equal(before, node.model))]))
"""
    assert noted(run(body, tmp_path, learners=1, rounds=1), 0, "after") == ["[0.03, 3, false]"]


def test_the_change_by_training_leaves_the_model_alone_and_counts(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        async for _ in node.rounds():
            before = node.model.copy()
            change = await node.trained_change()
            assert np.array_equal(before, node.model)
            node.model += change
"""
    aside = run(body, tmp_path, learners=1, rounds=3)
    (tmp_path / "plain").mkdir()
    plain = run(
        "    async def run(self, node):\n        async for _ in node.rounds():\n            await node.train()\n",
        tmp_path / "plain",
        learners=1,
        rounds=3,
    )
    assert aside.models[0].tolist() == pytest.approx(plain.models[0].tolist(), abs=1e-6)
    assert [each.steps for each in aside.rounds(0)] == [1, 1, 1]
    assert [each.loss for each in aside.rounds(0)] == pytest.approx([each.loss for each in plain.rounds(0)])


def test_kinds_that_nothing_took_are_told_at_the_end(tmp_path: Path) -> None:
    body = """
    async def run(self, node):
        async for round_ in node.rounds():
            node.send(node.others, Message("heard", round_))
            node.send(node.others, Message("unheard", round_))
            await node.sleep(1.0)
            node.arrived("heard")
"""
    outcome = run(body, tmp_path)
    assert [noted(outcome, rank, "never-taken") for rank in range(3)] == [["unheard: 4"]] * 3
    tally = ProgressTally((0, 1, 2), 2, None)
    for rank in range(3):
        tally.recorded(rank, Event(1.0, "never-taken", "unheard: 4"))
    tally.recorded(0, Event(1.0, "never-taken", "hostile: many"))
    (remark,) = tally.remarks
    assert remark.startswith("12 messages of the kind `unheard` arrived and were never taken, at 3 nodes: ")


@pytest.mark.parametrize("takes", ["node.arrived()", "await node.receive()", "await node.receive_all(timeout_s=0.1)"])
def test_whatever_takes_any_kind_leaves_none_to_tell(takes: str, tmp_path: Path) -> None:
    body = f"""
    async def run(self, node):
        async for round_ in node.rounds():
            node.send(node.others, Message("word", round_))
            await node.sleep(1.0)
            {takes}
"""
    outcome = run(body, tmp_path)
    assert [noted(outcome, rank, "never-taken") for rank in range(3)] == [[]] * 3
