"""AD-PSGD: pairwise averaging in parallel with training, whatever happens to messages and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.node.algorithms.adpsgd import ADPSGD
from testbed.node.life import Reason
from testbed.node.messages import Message, Received, UnusableModel
from testbed.node.node import Node
from testbed.node.pairwise import REPLY, REQUEST, Answering, Asking
from testbed.node.tickets import Ticket, TicketState
from testbed.node.world import Vector
from testbed.plan.pairing import asking_side
from testbed.records import Count
from testbed.seeds import stream
from tests.examples import examples
from tests.node.crashing_world import Crash, CrashingWorld
from tests.node.noted_trainings import Noted, descended, trainings
from tests.node.small_world import Graph, Outcome, Quadratic, World, full, ring
from tests.node.vectors import apart

IRREGULAR: Graph = [[1, 2, 3, 4], [0], [0, 3], [0, 2, 4], [0, 3, 5], [4]]
PAIR: Graph = [[1], [0]]
"""Rank 0 answers, rank 1 asks."""
SKIP = {"missing": {"after": "2s", "then": "skip"}}


def adpsgd(**options: object) -> dict[str, object]:
    return {"name": "adpsgd", "timeout": "200ms", **options}


def total(vectors: list[Vector]) -> np.ndarray:
    stacked: np.ndarray = np.array(vectors, np.float64)
    return np.asarray(stacked.sum(axis=0))


def start(n: int) -> np.ndarray:
    return total([apart(learner) for learner in range(n)])


def world(graph: Graph, **more: Any) -> World:
    usual = {"algorithm": adpsgd(), "lr": 0.0, "rounds": 12, "first_model": apart, "experiment": SKIP}
    return World(len(graph), graph=graph, **{**usual, **more})


@contextmanager
def averages() -> Iterator[Counter[tuple[Node, str, int, tuple[int, ...]]]]:
    """Counts how often an exchange changes a model: by life, side, peer and number."""
    found: Counter[tuple[Node, str, int, tuple[int, ...]]] = Counter()

    def counting(step: Callable[[Any, Node, Received], None]) -> Callable[[Any, Node, Received], None]:
        def counted(self: Any, node: Node, received: Received) -> None:
            before = node.model.copy()
            step(self, node, received)
            if not np.array_equal(before, node.model):
                number = received.message.fields["number"]
                assert isinstance(number, list)
                found[node, received.message.kind, received.sender, tuple(number)] += 1

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Answering, "answer", counting(Answering.answer))
        patch.setattr(Asking, "take", counting(Asking.take))
        yield found


# -- the paper's points ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchanges", [1, 3, "free"])
@pytest.mark.parametrize("graph", [ring(8), ring(7), full(5), IRREGULAR], ids=["ring", "odd", "full", "irregular"])
def test_without_training_the_sum_of_all_models_stays_and_they_come_together(graph: Graph, exchanges: object) -> None:
    n = len(graph)
    outcome = world(graph, algorithm=adpsgd(exchanges_per_iter=exchanges), rounds=40).run()
    np.testing.assert_allclose(total(outcome.models), start(n), rtol=0, atol=1e-5)
    spread = np.std([apart(learner) for learner in range(n)], axis=0).max()
    assert np.std(np.array(outcome.models), axis=0).max() < 0.4 * spread


def test_only_active_nodes_ask_and_only_passive_ones_answer() -> None:
    asks = asking_side(tuple(map(tuple, ring(7))))
    sent: Counter[tuple[str, bool, bool]] = Counter()

    def note(sender: int, to: int, message: Message) -> None:
        sent[message.kind, asks[sender], asks[to]] += 1

    world(ring(7), before_shipping=note).run()
    assert set(sent) == {(REQUEST, True, False), (REPLY, False, True)}
    assert len(set(sent.values())) == 1, "a reply for every request"


def test_one_exchange_is_the_mean_of_both_models_at_their_own_times() -> None:
    """Against the formula: the passive node has averaged when the active one gets its reply."""
    outcome = world(PAIR, rounds=1, step_s=lambda _learner, _step: 1.0).run()
    expected = start(2) / 2
    np.testing.assert_allclose(outcome.models, [expected, expected], rtol=0, atol=1e-6)
    assert [record.aggregated for rank in (0, 1) for record in outcome.rounds(rank)] == [1, 1]


def test_exchanges_go_on_while_a_node_trains() -> None:
    """A lock around training would hold up every exchange for 10 s, and all four of a round could not be done."""
    outcome = world(PAIR, rounds=2, algorithm=adpsgd(exchanges_per_iter=4), step_s=lambda _learner, _step: 10.0).run()
    for rank in (0, 1):
        rounds = outcome.rounds(rank)
        assert [record.aggregated for record in rounds] == [4, 4]
        assert [round(record.t, 6) for record in rounds] == [10.0, 20.0]
        assert [record.phases.wait for record in rounds] == [0.0, 0.0]


def test_nothing_is_lost_of_what_is_learned_while_an_exchange_is_under_way() -> None:
    """Overwriting the model with the mean, as published code does, would lose it."""
    for graph in (ring(6), IRREGULAR):
        uneven = world(graph, lr=0.3, rounds=20, algorithm=adpsgd(exchanges_per_iter="free"))
        uneven.step_s = lambda learner, _step: 0.004 + 0.003 * learner
        with trainings() as found:
            outcome = uneven.run()
        learned = total([each.change for each in found if each.what == "ends"])
        np.testing.assert_allclose(total(outcome.models), start(6) + learned, rtol=0, atol=2e-5)
        assert np.abs(learned).max() > 1


def test_a_second_implementation_steps_beside_it() -> None:
    """Straight from the paper, in float64: when each message is sent and arrives, and each training begins and ends."""
    scene = world(IRREGULAR, lr=0.2, rounds=15, steps=3, algorithm=adpsgd(exchanges_per_iter=2))
    scene.experiment = {**SKIP, "evaluation": {"every": 1, "mode": "after"}}
    scene.step_s = lambda learner, step: 0.0101 + 0.0037 * learner + 0.001 * (step % 3)
    scene.latency_s = lambda sender, to: 0.007 + 0.0013 * sender + 0.00071 * to
    with trainings() as log:
        scene.before_shipping = lambda sender, to, message: log.append(Noted(f"sends {message.kind}", sender, to))
        scene.on_arrival = lambda sender, to, message: log.append(Noted(f"gets {message.kind}", to, sender))
        outcome = scene.run()
    gradients = [Quadratic(scene, None, learner) for learner in range(6)]  # type: ignore[arg-type]
    x = [apart(learner).astype(np.float64) for learner in range(6)]
    asked, answered, learned = {}, {}, {}
    rounds = Counter[int]()
    for noted in log:
        node, other = noted.node, noted.other
        match noted.what:
            case "begins":
                learned[node] = descended(gradients[node], x[node], noted, 0.2) - x[node]
            case "ends":
                x[node] = x[node] + learned[node]
                np.testing.assert_allclose(outcome.evaluated[node, rounds[node]], x[node], rtol=0, atol=1e-5)
                rounds[node] += 1
            case "sends request":
                asked[node] = x[node].copy()
            case "gets request":
                answered[node, other] = x[node].copy()
                x[node] = (x[node] + asked[other]) / 2
            case "gets reply":
                x[node] = x[node] + (answered[other, node] - asked[node]) / 2
    np.testing.assert_allclose(outcome.models, x, rtol=0, atol=1e-5)
    assert [rounds[node] for node in range(6)] == [15] * 6
    assert len(answered) > 3, "several pairs"


def test_every_byte_is_known_beforehand() -> None:
    """A request for every round and active node, and a reply for every request."""
    rounds, dimension = 6, 1000
    outcome = world(ring(6), rounds=rounds, dimension=dimension, first_model=None, latency_s=lambda *_: 1e-4).run()
    fields: dict[str, Any] = {"number": [0, 1], "degree": 1}
    for rank in range(6):
        kind = REQUEST if rank % 2 else REPLY
        header = len(Message(kind, 0, fields, (np.zeros(dimension, np.float32),)).header)
        if rank % 2:
            assert outcome.end(rank).sent == Count(rounds * 4 * dimension, rounds * header, 0, rounds)
        end = outcome.end(rank)
        assert end.sent.payload == 4 * dimension * end.sent.messages
        assert end.received.messages == end.sent.messages


@pytest.mark.parametrize("exchanges", [1, 2])
def test_a_round_begins_so_many_exchanges_and_what_is_not_used_is_lost(exchanges: int) -> None:
    def requests(latency_s: float) -> int:
        sent = Counter[str]()
        scene = world(PAIR, rounds=10, algorithm=adpsgd(exchanges_per_iter=exchanges, timeout="9s"))
        scene.latency_s = lambda _sender, _to: latency_s
        scene.before_shipping = lambda _sender, _to, message: sent.update([message.kind])
        scene.run()
        return sent[REQUEST]

    assert requests(0.001) == 10 * exchanges
    # 10 rounds of 10 ms, and an exchange takes 50 ms: one begins at 0 and at 50 ms.
    assert requests(0.025) == 2


def test_free_exchanges_go_on_as_fast_as_the_network_lets_them() -> None:
    scene = world(PAIR, rounds=2, algorithm=adpsgd(exchanges_per_iter="free"), step_s=lambda _learner, _step: 1.0)
    aggregated = sum(record.aggregated for record in scene.run().rounds(1))
    assert 95 <= aggregated <= 100  # of 20 ms each
    scene.latency_s, scene.rate_bps = lambda _sender, _to: 0.0, 1e15
    assert sum(record.aggregated for record in scene.run().rounds(1)) < 2100  # and no end at one instant otherwise


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exchanges_per_iter": 0}, "exchanges_per_iter is a whole number from 1 on, or `free`"),
        ({"exchanges_per_iter": "often"}, "exchanges_per_iter is a whole number from 1 on, or `free`"),
        ({"timeout": 0.0}, "timeout is above 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ADPSGD(**options)


def test_it_says_what_it_cannot_work_with() -> None:
    parts = world(ring(4), experiment={"sharing": "random"}).run().end(0).failure
    assert parts is not None
    assert "the only sharing it can have is `full`" in parts.message
    dynamic = World(4, algorithm=adpsgd(), degree=2).run().end(0).failure
    assert dynamic is not None
    assert "cannot be divided into two sides" in dynamic.message


def test_a_node_without_neighbours_learns_alone_and_says_so() -> None:
    outcome = world([[1], [0], []], rounds=3).run()
    assert [event.what for event in outcome.events(2)] == ["no-partner"]
    assert outcome.models[2].tobytes() == apart(2).tobytes()
    np.testing.assert_allclose(total(outcome.models), start(3), rtol=0, atol=1e-6)


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [0, 1], ids=["passive", "active"])
def test_who_is_done_first_is_waited_for_by_nobody_and_the_sum_stays(slow: int) -> None:
    scene = world(ring(4), rounds=6, algorithm=adpsgd(exchanges_per_iter=2))
    scene.step_s = lambda learner, _step: 0.5 if learner == slow else 0.01
    outcome = scene.run()
    np.testing.assert_allclose(total(outcome.models), start(4), rtol=0, atol=1e-5)
    ends = [outcome.end(rank).t for rank in range(4)]
    if slow == 0:
        assert ends[1] < 0.2
        assert ends[0] < 3.1, "its own work, and no patience for finished peers"
    else:
        assert ends[0] == pytest.approx(3.0, abs=0.1)
        asked = sum(record.aggregated for record in outcome.rounds(1))
        assert asked >= 10, "passive nodes answer the slow one to its end"


def test_a_partner_that_has_finished_is_not_asked() -> None:
    """Ranks 0 and 2 answer rank 1. Rank 0 finishes after 2 s without a request, and takes no turn of rank 2."""
    scene = world([[1], [0, 2], [1, 3], [2]], rounds=8, seed=3)
    scene.step_s = lambda learner, _step: 0.01 if learner == 0 else 5.0
    outcome = scene.run()
    assert outcome.end(0).t < 2.2
    assert [record.aggregated for record in outcome.rounds(1)] == [1] * 8
    np.testing.assert_allclose(total(outcome.models), start(4), rtol=0, atol=1e-5)


def test_a_partner_that_has_finished_without_an_answer_has_not_averaged() -> None:
    """It is patient for 3 s after the first request; the second one is under way when it finishes."""
    scene = world(PAIR, rounds=2, experiment={"missing": {"after": "3s", "then": "skip"}})
    scene.algorithm = adpsgd(timeout="100s")
    scene.step_s = lambda learner, step: 0.01 if learner == 0 else (3.2, 1.0)[step]
    scene.latency_s = lambda sender, _to: 0.5 if sender == 1 else 0.01
    outcome = scene.run()
    assert outcome.end(0).t == pytest.approx(3.5, abs=0.1)
    assert outcome.end(1).t == pytest.approx(4.2, abs=0.01)
    assert [record.aggregated for record in outcome.rounds(1)] == [1, 0]
    np.testing.assert_allclose(total(outcome.models), start(2), rtol=0, atol=1e-6)


def test_at_the_end_of_its_time_no_exchange_is_half_done() -> None:
    """The last one would be: a node that has been asked cannot know whether its reply still counts."""
    for stop in (0.5003, 0.5107, 0.5151, 0.5199):
        scene = world(ring(6), rounds=None, algorithm=adpsgd(exchanges_per_iter="free"))
        scene.experiment = {**SKIP, "stop": {"time": stop}}
        scene.early = [(stop, rank, Reason.STOPPED) for rank in range(6)]
        outcome = scene.run()
        np.testing.assert_allclose(total(outcome.models), start(6), rtol=0, atol=1e-5)
        assert {outcome.end(rank).reason for rank in range(6)} == {"stopped"}


# -- messages that are late or lost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [REQUEST, REPLY])
def test_what_is_lost_is_sent_again_and_averaged_once_on_either_side(lost: str) -> None:
    seen: Counter[tuple[str, int]] = Counter()

    def is_lost(_sender: int, _to: int, message: Message) -> bool:
        number = message.fields["number"]
        assert isinstance(number, list)
        seen[message.kind, int(number[1])] += 1
        return message.kind == lost and seen[message.kind, int(number[1])] <= 2

    with averages() as found:
        outcome = world(PAIR, rounds=100, lost=is_lost).run()
    np.testing.assert_allclose(total(outcome.models), start(2), rtol=0, atol=1e-6)
    # A request takes 200 ms until it is sent again: two times of that, and 1 s of training in all.
    assert set(found.values()) == {1}
    assert {number for kind, number in seen if kind == REQUEST} == {1, 2, 3}
    assert set(seen.values()) == {3} if lost == REPLY else {1, 3}


def test_a_late_reply_counts_and_a_second_one_does_not() -> None:
    """A round trip of 1 s, and a timeout of 200 ms: requests are repeated, and so are replies."""
    with averages() as found:
        outcome = world(PAIR, rounds=300, latency_s=lambda _sender, _to: 0.5).run()
    np.testing.assert_allclose(total(outcome.models), start(2), rtol=0, atol=1e-6)
    assert set(found.values()) == {1}
    assert outcome.shipped.messages > len(found)


def test_a_request_that_is_slow_to_leave_is_waited_for_and_not_repeated() -> None:
    """A second one would make both slower. It takes 1 s, the timeout is 200 ms, and there are two to ask."""
    scene = world([[1, 3], [0, 2], [1, 3], [0, 2]], rounds=500, algorithm=adpsgd(exchanges_per_iter="free"))
    scene.latency_s = lambda sender, _to: 1.0 if sender in (1, 3) else 0.01
    sent: list[tuple[str, int]] = []
    scene.before_shipping = lambda sender, _to, message: sent.append((message.kind, sender))
    scene.run()
    assert Counter(sent)[REQUEST, 1] == Counter(sent)[REQUEST, 3] == 5
    assert Counter(sent)[REPLY, 0] + Counter(sent)[REPLY, 2] == 10


def test_a_late_reply_that_came_between_two_rounds_is_taken_before_anything_is_sent_again() -> None:
    scene = world(PAIR, rounds=3, step_s=lambda _learner, _step: 3.0)
    scene.latency_s = lambda sender, _to: 1.0 if sender == 0 else 0.01
    sent: Counter[str] = Counter()
    scene.before_shipping = lambda _sender, _to, message: sent.update([f"{message.kind} {message.fields['number']}"])
    scene.run()
    assert sent == {f"{kind} [0, {count}]": 1 for kind in (REQUEST, REPLY) for count in (1, 2, 3)}


def test_a_reply_that_is_slow_to_leave_is_not_sent_twice() -> None:
    """It takes 1 s, and after 200 ms the request comes again."""
    scene = world(PAIR, rounds=300, latency_s=lambda sender, _to: 1.0 if sender == 0 else 0.01)
    sent: Counter[tuple[str, str]] = Counter()
    scene.before_shipping = lambda _sender, _to, message: sent.update([(message.kind, str(message.fields["number"]))])
    scene.run()
    assert [count for (kind, _), count in sent.items() if kind == REPLY] == [1] * 3
    assert all(count > 2 for (kind, _), count in sent.items() if kind == REQUEST)


def test_a_silent_partner_costs_a_timeout_and_others_are_asked_meanwhile() -> None:
    """Rank 3 asks ranks 0, 1 and 2, of which 1 never answers."""
    graph: Graph = [[3], [3], [3], [0, 1, 2]]
    star = asking_side(tuple(map(tuple, graph)))
    assert star == (True, True, True, False)
    graph = [[3, 4, 5], [3, 4, 5], [3, 4, 5], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    scene = world(graph, rounds=200, lost=lambda _sender, to, _message: to == 1)
    outcome = scene.run()
    for rank in (3, 4, 5):
        assert sum(record.aggregated for record in outcome.rounds(rank)) > 60
        assert outcome.end(rank).t < 2.0 + 2.1


@pytest.mark.parametrize("policy", ["fifo", "flush", "latest"])
def test_whatever_the_outbox_drops_the_sum_stays(policy: str) -> None:
    scene = world(full(5), rounds=40, dimension=8, rate_bps=2e4, algorithm=adpsgd(exchanges_per_iter="free"))
    scene.experiment = {**SKIP, "outbox": {"policy": policy, "in_flight": 1}}
    outcome = scene.run()
    np.testing.assert_allclose(total(outcome.models), start(5), rtol=0, atol=1e-5)
    assert {outcome.end(rank).reason for rank in range(5)} == {"finished"}


# -- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [PAIR, ring(5)], ids=["pair", "ring"])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_crash_of_one_node_stops_no_other(graph: Graph, rank: int) -> None:
    outcome = CrashingWorld(world(graph, rounds=30), [Crash(0.105, rank)]).run()
    for other in set(range(len(graph))) - {rank}:
        assert outcome.end(other).rounds == 30
        assert outcome.end(other).t < 0.3 + 2.0 + 0.3


@pytest.mark.parametrize("rejoin", ["fresh", "last"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_came_back_averages_again(rank: int, rejoin: str, tmp_path: Path) -> None:
    scene = world(PAIR, rounds=60, lr=0.1, folders=tmp_path, experiment={**SKIP, "rejoin": rejoin})
    running = CrashingWorld(scene, [Crash(0.105, rank, 0.05, rejoin)])
    with averages() as found:
        outcome = running.run()
    assert set(found.values()) == {1}
    lives = {node for node, *_ in found}
    assert len(lives) == 3, "both lives of one, and the life of the other"
    assert set(running.nodes) < lives
    assert [each.reason for each in (outcome.end(0), outcome.end(1))] == ["finished"] * 2


@pytest.mark.parametrize("back_s", [0.01, 0.05])
@pytest.mark.parametrize("at_s", [0.0105, 0.0145, 0.0205, 0.0235, 0.026])
def test_an_active_node_that_comes_back_with_its_state_ends_what_it_had_begun(
    at_s: float, back_s: float, tmp_path: Path
) -> None:
    """Its last snapshot is of an open exchange; the reply is what its partner has averaged already, or averages now."""
    scene = world(PAIR, rounds=20, folders=tmp_path, experiment={**SKIP, "rejoin": "last"})
    scene.latency_s = lambda _sender, _to: 0.012
    outcome = CrashingWorld(scene, [Crash(at_s, 1, back_s, "last")]).run()
    np.testing.assert_allclose(total(outcome.models), start(2), rtol=0, atol=1e-6)


def test_a_passive_node_that_comes_back_with_its_state_repeats_its_last_reply(tmp_path: Path) -> None:
    """It has averaged at 12 ms and saved that at 20 ms; at 22 ms its reply is lost with it."""
    scene = world(PAIR, rounds=40, folders=tmp_path, experiment={**SKIP, "rejoin": "last"})
    scene.latency_s = lambda _sender, _to: 0.012
    outcome = CrashingWorld(scene, [Crash(0.022, 0, 0.01, "last")]).run()
    np.testing.assert_allclose(total(outcome.models), start(2), rtol=0, atol=1e-6)


def received(kind: str, sender: int, number: object, *values: np.ndarray) -> Received:
    return Received(sender, Message(kind, 0, {"number": number}, values))  # type: ignore[dict-item]


class Alone:
    """As much of a node as averaging needs; what it sends ends in this state."""

    def __init__(self, model: Vector, t: float = 0.0, state: TicketState = TicketState.LEFT) -> None:
        self.model = model
        self.round = 0
        self.t = t
        self.state = state
        self.sent: list[tuple[int, Message]] = []

    def now(self) -> float:
        return self.t

    def send(self, to: int, message: Message) -> list[Ticket]:
        self.sent.append((to, message))
        ticket = Ticket(to, message, len(self.sent))
        ticket.settle(self.state)
        return [ticket]


def test_a_request_of_a_life_that_is_over_is_not_averaged_and_ends_the_exchange() -> None:
    answering, node = Answering(), Alone(np.ones(3, np.float32))
    for number in ([5, 1], [5, 1], [4, 9]):
        answering.answer(node, received(REQUEST, 7, number, np.zeros(3, np.float32)))  # type: ignore[arg-type]
    assert np.allclose(node.model, 0.5)
    assert [(to, list(message.fields.values()), len(message.payload)) for to, message in node.sent] == [
        (7, [[5, 1]], 1),
        (7, [[5, 1]], 1),
        (7, [[4, 9]], 0),
    ]
    assert node.sent[0][1].payload[0].tolist() == [1, 1, 1], "the model from before averaging, both times"
    asking, asker = Asking(), Alone(np.zeros(3, np.float32), t=4e-6)
    asking.begin(asker)  # type: ignore[arg-type]
    asking.ask(asker, 2)  # type: ignore[arg-type]
    for number in ([4, 2], [3, 1]):
        asking.take(asker, received(REPLY, 2, number, np.ones(3, np.float32)))  # type: ignore[arg-type]
    assert (list(asking.open), asker.model.tolist()) == ([2], [0, 0, 0])
    asking.take(asker, received(REPLY, 2, [4, 1]))  # type: ignore[arg-type]
    assert (list(asking.open), asker.model.tolist()) == ([], [0, 0, 0])


@pytest.mark.parametrize("number", [None, 3, [1], [1, 2, 3], [1, "2"], [1, True]])
def test_a_message_with_no_number_names_its_sender(number: object) -> None:
    node = Alone(np.ones(3, np.float32))
    with pytest.raises(UnusableModel, match="the node of rank 7 sent a model that cannot be used: `request` with the"):
        Answering().answer(node, received(REQUEST, 7, number, np.zeros(3, np.float32)))  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [TicketState.WAITING, TicketState.LEFT, TicketState.DROPPED])
def test_a_request_that_has_not_left_is_not_sent_again(state: TicketState) -> None:
    """Such as one to a dead node; what the outbox drops has to be sent again."""
    asking, node = Asking(), Alone(np.zeros(3, np.float32), state=state)
    asking.ask(node, 2)  # type: ignore[arg-type]
    for t in (1.0, 4.9, 5.0, 9.0):
        node.t = t
        asking.ask_again(node, 5.0)  # type: ignore[arg-type]
    assert len(node.sent) == (1 if state is TicketState.WAITING else 2)


def test_an_exchange_of_an_earlier_life_is_due_as_long_as_a_new_one() -> None:
    before, node = Asking(), Alone(np.ones(3, np.float32), 7.0)
    before.ask(node, 2)  # type: ignore[arg-type]
    after, node = Asking(), Alone(np.zeros(3, np.float32), 9.0)
    after.restore(before.state())
    after.begin(node)  # type: ignore[arg-type]
    assert after.open[2].since_s == 9.0
    after.ask_again(node, 5.0)  # type: ignore[arg-type]
    ((to, request),) = node.sent
    assert (to, request.fields["number"], request.payload[0].tolist()) == (2, [0, 1], [1, 1, 1]), (
        "at once, and the same"
    )
    after.ask(node, 3)  # type: ignore[arg-type]
    assert node.sent[1][1].fields["number"] == [9_000_000, 2]


def test_numbers_do_not_begin_again_with_a_life_that_remembers_nothing() -> None:
    numbers = []
    for t in (0.0, 0.1, 7.3):
        asking, node = Asking(), Alone(np.zeros(3, np.float32), t)
        asking.begin(node)  # type: ignore[arg-type]
        for partner in (1, 2):
            asking.ask(node, partner)  # type: ignore[arg-type]
        numbers += [message.fields["number"] for _, message in node.sent]
    assert numbers == [[0, 1], [0, 2], [100_000, 1], [100_000, 2], [7_300_000, 1], [7_300_000, 2]]


# -- anything at all -------------------------------------------------------------------------------------------------


def random_world(random: Random, folder: Path) -> World:
    """Any graph, speeds, delays and losses; no message is lost more than three times."""
    n = random.randint(2, 7)
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for one in range(n):
        for other in range(one):
            if random.random() < 0.6:
                neighbours[one].add(other)
                neighbours[other].add(one)
    steps = [random.choice([0.002, 0.01, 0.03, 0.1]) for _ in range(n)]
    delays = [[random.choice([0.0001, 0.003, 0.02, 0.3]) for _ in range(n)] for _ in range(n)]
    loss = random.choice([0.0, 0.0, 0.2, 0.7])
    chance = stream(random.randint(0, 99), "loss")
    lost = Counter[str]()

    def is_lost(sender: int, to: int, message: Message) -> bool:
        what = f"{sender} {to} {message.kind} {message.fields.get('number')}"
        if lost[what] == 3 or chance.random() >= loss:
            return False
        lost[what] += 1
        return True

    scene = world([sorted(each) for each in neighbours], rounds=random.randint(1, 15), seed=random.randint(0, 99))
    scene.algorithm = adpsgd(
        exchanges_per_iter=random.choice([1, 2, "free"]), timeout=random.choice(["20ms", "200ms", "1s"])
    )
    scene.step_s = lambda learner, step: steps[learner] * (1 + step % 3)
    scene.latency_s = lambda sender, to: delays[sender][to]
    scene.lost = is_lost
    scene.folders = folder
    outbox = {"policy": random.choice(["fifo", "flush", "latest"]), "in_flight": random.choice([None, 1, 2])}
    rejoin = random.choice(["fresh", "last"])
    scene.experiment = {"missing": {"after": "30s", "then": "wait"}, "outbox": outbox, "rejoin": rejoin}
    return scene


def all_is_well(outcome: Outcome, scene: World, down: set[int]) -> None:
    rounds = scene.rounds
    assert rounds is not None
    for rank in set(range(scene.learners)) - down:
        assert (outcome.reasons[rank], outcome.end(rank).rounds) == (Reason.FINISHED, rounds)
        # Work, time that it was down, and the patience for peers that are asked, and then for those that ask.
        assert outcome.end(rank).t <= rounds * 0.3 + 0.7 + 2 * 30.0


@given(st.integers(0, 10**9))
@settings(max_examples=examples(25), deadline=None)
def test_under_any_delays_and_losses_the_sum_stays_and_nothing_waits_for_ever(seed: int) -> None:
    with TemporaryDirectory() as folder, averages() as found:
        scene = random_world(stream(seed, "test"), Path(folder))
        outcome = scene.run()
    all_is_well(outcome, scene, set())
    assert set(found.values()) <= {1}
    np.testing.assert_allclose(total(outcome.models), start(scene.learners), rtol=0, atol=2e-5)


@given(st.integers(0, 10**9))
@settings(max_examples=examples(25), deadline=None)
def test_under_any_crashes_each_number_counts_once_and_nothing_waits_for_ever(seed: int) -> None:
    random = stream(seed, "test")
    with TemporaryDirectory() as folder, averages() as found:
        scene = random_world(random, Path(folder))
        crashes = [
            Crash(
                t=random.uniform(0.0, 0.5),
                rank=random.randrange(scene.learners),
                back_s=random.choice([None, 0.001, 0.05, 0.7]),
                rejoin=str(scene.experiment["rejoin"]),
            )
            for _ in range(random.randint(1, 4))
        ]
        running = CrashingWorld(scene, crashes)
        outcome = running.run()
    all_is_well(outcome, scene, running.down)
    assert set(found.values()) <= {1}


@pytest.mark.parametrize("exchanges", [1, "free"])
@pytest.mark.parametrize("uneven", [False, True], ids=["lockstep", "stragglers"])
def test_nothing_depends_on_the_order_of_equal_times(uneven: bool, exchanges: object) -> None:
    def outcome(order: list[int] | None) -> Outcome:
        scene = World(6, graph=IRREGULAR, rounds=8, order=order, algorithm=adpsgd(exchanges_per_iter=exchanges))
        scene.experiment = SKIP
        scene.step_s = lambda learner, _step: 0.01 * (1 + learner // 2) if uneven else 0.01
        scene.latency_s, scene.rate_bps = lambda _sender, _to: 0.005, 1e15
        return scene.run()

    reference = outcome(None)
    for seed in range(4):
        order = list(range(6))
        stream(seed, "test").shuffle(order)
        again = outcome(order)
        assert again.journals == reference.journals
        assert [model.tobytes() for model in again.models] == [model.tobytes() for model in reference.models]
