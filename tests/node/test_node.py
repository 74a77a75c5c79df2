"""`Node` and its life: rounds, missing peers, failures, and what the journal says of it."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest

from testbed.journal import Journal
from testbed.node.life import Reason
from testbed.records import Evaluation, Event, line
from tests.node.small_world import World, _Running, full, ring

SKIP = {"missing": {"after": "2s", "then": "skip"}}

USERS = '''
from testbed.node.algorithm import Algorithm


class Fails(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            await node.train()
            if round_ == 7 and node.name == "node1":
                raise ZeroDivisionError("one over nothing")
            neighbours = await node.neighbours(round_)
            await node.send(neighbours, self.sharing.encode(node.model, round_))
            self.sharing.average(node.model, await node.gather(neighbours, round_))


class Helper(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            self.check({"rounds": round_}["no such key"])

    def check(self, value): ...


class Sleeps(Algorithm):
    """Talks in its own words."""

    async def run(self, node):
        async for round_ in node.rounds():
            await node.sleep(0.5)
            if node.rank == 0:
                await node.send(node.others, Message("word", round_, {"text": "hello"}))
                assert await node.receive("no-such-kind", timeout_s=0.25) is None
            else:
                received = await node.receive("word")
                assert received.message.fields == {"text": "hello"}
                assert node.arrived("word") == []
                node.note("heard", received.message.fields["text"])


class Short(Algorithm):
    def run(self, node): ...


class Options(Algorithm):
    def __init__(self, must): ...


from testbed.node.messages import Message
'''


@pytest.fixture
def users(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(USERS)
    return f"{file}:"


def place_of(text: str) -> int:
    return next(number for number, each in enumerate(USERS.splitlines(), start=1) if text in each)


def test_an_exception_in_round_7_is_told_with_its_file_and_line(users: str) -> None:
    outcome = World(3, algorithm={"name": users + "Fails"}, graph=ring(3), rounds=20).run()
    end = outcome.end(1)
    assert (end.reason, end.rounds) == ("failed", 7)
    assert end.failure is not None
    assert end.failure.message == "one over nothing (ZeroDivisionError)"
    assert (end.failure.file, end.failure.line) == ("mine.py", place_of("raise ZeroDivisionError"))
    assert [each.round for each in outcome.rounds(1)] == list(range(7))
    for rank in (0, 2):
        assert outcome.end(rank).reason == "stopped"
        assert outcome.end(rank).failure is None


def test_the_place_of_a_failure_is_the_innermost_in_that_file(users: str) -> None:
    failure = World(1, algorithm={"name": users + "Helper"}, graph=[[]]).run().end(0).failure
    assert failure is not None
    assert (failure.file, failure.line) == ("mine.py", place_of("no such key"))


@pytest.mark.parametrize(
    ("name", "says"), [("Short", "async def run"), ("Options", "options"), ("Nothing", "no `Nothing`")]
)
def test_an_algorithm_that_is_none_ends_the_node_before_its_first_round(users: str, name: str, says: str) -> None:
    outcome = World(2, algorithm={"name": users + name}, graph=ring(2)).run()
    for rank in range(2):
        failure = outcome.end(rank).failure
        assert outcome.end(rank).reason == "failed"
        assert failure is not None
        assert says in failure.message


def test_algorithms_may_use_words_of_their_own(users: str) -> None:
    outcome = World(2, algorithm={"name": users + "Sleeps"}, graph=ring(2), rounds=4).run()
    assert [outcome.end(rank).failure for rank in range(2)] == [None, None]
    assert [each.detail for each in outcome.events(1)] == ["hello"] * 4
    np.testing.assert_allclose([each.t for each in outcome.rounds(0)], 0.75 * np.arange(1, 5))
    np.testing.assert_allclose([each.phases.wait for each in outcome.rounds(0)], 0.75)


def test_skipping_a_missing_peer_goes_on_without_and_says_so() -> None:
    world = World(3, graph=full(3), rounds=4, experiment=SKIP)
    world.lost = lambda sender, to, message: (sender, to) == (0, 1) and message.round == 1
    outcome = world.run()
    rounds = outcome.rounds(1)
    # In round 2 it is waited for again: meanwhile it has sent that round's message, and so it lives.
    assert [each.aggregated for each in rounds] == [2, 1, 2, 2]
    assert [each.expired for each in rounds] == [0, 1, 0, 0]
    assert rounds[1].phases.wait == pytest.approx(2.0)
    (event,) = outcome.events(1)
    assert (event.what, event.detail) == ("peer-missing", "round 1: node0: skip")
    assert not outcome.events(2)


def test_a_dead_peer_costs_its_timeout_once() -> None:
    world = World(3, graph=full(3), rounds=4, experiment=SKIP)
    world.lost = lambda sender, _to, message: sender == 0 and message.round >= 1
    rounds = world.run().rounds(1)
    assert [each.phases.wait > 1.9 for each in rounds] == [False, True, False, False]
    assert [each.aggregated for each in rounds] == [2, 1, 1, 1]


def test_waiting_for_a_missing_peer_says_so_once_and_loses_nothing() -> None:
    experiment = {"missing": {"after": "2s", "then": "wait"}}
    world = World(3, graph=full(3), rounds=3, experiment=experiment)
    world.step_s = lambda learner, step: 9.0 if (learner, step) == (2, 1) else 0.01
    patient = world.run()
    assert patient.models[0].tobytes() == World(3, graph=full(3), rounds=3).run().models[0].tobytes()
    assert [each.detail for each in patient.events(0)] == ["round 1: node2: wait"]
    assert [each.expired for each in patient.rounds(0)] == [0, 0, 0]


def test_aborting_for_a_missing_peer_ends_the_node_and_names_the_peer() -> None:
    world = World(3, graph=full(3), experiment={"missing": {"after": "2s", "then": "abort"}})
    world.lost = lambda sender, to, _message: sender == 2 and to == 0
    end = world.run().end(0)
    assert end.reason == "failed"
    assert end.failure is not None
    assert "node2" in end.failure.message
    assert end.t == pytest.approx(2.01)


def test_a_message_that_is_late_expires_once() -> None:
    """Given up for after 2 s, there after 3 s: counted when it was given up, and not again."""
    world = World(2, graph=full(2), rounds=4, experiment=SKIP)
    world.latency_s = lambda sender, _to: 3.0 if sender == 0 else 0.01
    outcome = world.run()
    assert sum(each.aggregated for each in outcome.rounds(1)) + sum(each.expired for each in outcome.rounds(1)) == 4
    assert sum(each.expired for each in outcome.rounds(1)) >= 2


def test_somebody_who_comes_at_the_last_instant_is_not_missing() -> None:
    world = World(2, graph=full(2), rounds=1, experiment={"missing": {"after": "1s", "then": "skip"}})
    world.rate_bps = inf
    world.step_s = lambda _learner, _step: 0.0
    world.latency_s = lambda _sender, _to: 1.0
    outcome = world.run()
    assert outcome.rounds(0)[0].aggregated == 1
    assert not outcome.events(0)


@pytest.mark.parametrize("mode", ["after", "inline"])
def test_evaluation_is_due_every_so_often_and_at_the_end(mode: str) -> None:
    experiment = {"evaluation": {"every": 3, "mode": mode}}
    outcome = World(2, graph=full(2), rounds=7, experiment=experiment).run()
    scores = [each for each in outcome.records(0) if isinstance(each, Evaluation)]
    assert [each.round for each in scores] == [2, 5, 6]
    at = {each.round: each.t for each in outcome.rounds(0)}
    assert [each.t for each in scores] == [at[each.round] for each in scores]
    assert sorted(round_ for rank, round_ in outcome.evaluated if rank == 0) == [2, 5, 6]
    assert np.array_equal(outcome.evaluated[0, 6], outcome.models[0])
    assert not np.array_equal(outcome.evaluated[0, 2], outcome.models[0])


def test_no_evaluation_when_there_is_to_be_none() -> None:
    assert not World(2, graph=full(2)).run().evaluated


def test_totals_are_the_sum_of_the_rounds_and_what_came_after() -> None:
    outcome = World(4, graph=ring(4), rounds=5).run()
    for rank in range(4):
        end, rounds = outcome.end(rank), outcome.rounds(rank)
        assert end.sent.payload == sum(each.sent.payload for each in rounds)
        assert end.steps == sum(each.steps for each in rounds) == 5
        assert [each.t for each in outcome.records(rank)] == sorted(each.t for each in outcome.records(rank))


@pytest.mark.parametrize("reason", [Reason.STOPPED, Reason.LEFT, Reason.INTERRUPTED])
def test_an_early_end_is_told_with_its_reason(reason: Reason) -> None:
    """Rounds are 20 ms; node 1 ends after two and a half, in the middle of sending."""
    experiment = {**SKIP, "evaluation": {"every": 100, "mode": "after"}}
    outcome = World(3, graph=full(3), rounds=6, experiment=experiment, early=[(0.0552, 1, reason)]).run()
    end = outcome.end(1)
    assert (end.reason, end.rounds, end.failure) == (reason.value, 2, None)
    left = reason is Reason.LEFT
    assert end.t == pytest.approx(0.070184 if left else 0.0552)  # a latency later: the goodbye follows the model
    assert (end.sent.control > 0) is left
    # Two messages a round: of those of the third 28 bytes of 57 have left, 25 of them header.
    assert end.sent.payload == (6 * 32 if left else 4 * 32 + 2 * 3)
    assert end.sent.metadata == 6 * 25
    assert [each.round for each in outcome.records(1) if isinstance(each, Evaluation)] == (
        [] if reason is Reason.INTERRUPTED else [1]
    )
    assert outcome.end(0).rounds == 6
    assert sum(each.aggregated for each in outcome.rounds(0)) == 2 * 2 + 4 + left


def test_a_node_that_says_goodbye_is_not_waited_for() -> None:
    experiment = {"missing": {"after": "50s", "then": "wait"}}
    outcome = World(3, graph=full(3), rounds=6, experiment=experiment, early=[(0.0552, 1, Reason.LEFT)]).run()
    assert outcome.end(0).rounds == 6
    assert outcome.end(0).t < 1
    assert not outcome.events(0), "no peer was missed"
    assert [each.aggregated for each in outcome.rounds(0)] == [2, 2, 2, 1, 1, 1]


def test_a_node_that_leaves_at_the_start_only_says_goodbye() -> None:
    outcome = World(3, graph=full(3), experiment=SKIP, early=[(0.0, 1, Reason.LEFT)]).run()
    assert (outcome.end(1).reason, outcome.end(1).rounds, outcome.end(1).sent.messages) == ("left", 0, 2)  # goodbyes


def test_what_happens_before_a_nodes_life_is_told_behind_its_first_record() -> None:
    """A stranger may knock, or a mailbox be full, while everybody waits for the start."""
    running = _Running(World(learners=2, rounds=1, graph=ring(2)))
    running._nodes[0].note("refused", "a stranger")
    first, told, *_ = [json.loads(each) for each in running.run().journals[0].splitlines()]
    assert (first["type"], told["what"], told["detail"]) == ("start", "refused", "a stranger")
    assert told["t"] >= first["t"] >= 0.0


def test_streams_are_each_nodes_own() -> None:
    nodes = _Running(World(2, graph=full(2)))._nodes
    draws = [node.random(purpose).random() for node in nodes for purpose in ("minibatch", "compression")]
    assert len(set(draws)) == 4
    assert nodes[0].random("minibatch").random() == draws[0]


def test_a_torn_last_line_does_not_swallow_the_next_record(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first, second = Event(1.0, "one"), Event(2.0, "two")
    journal = Journal(path)
    journal.write(first)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"type":"ev')
    journal = Journal(path)
    journal.write(second)
    journal.close()
    assert path.read_bytes().splitlines() == [line(first).strip(), b'{"type":"ev', line(second).strip()]
