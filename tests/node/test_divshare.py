"""DivShare: what it sends to whom, what it mixes, what slow links and slow nodes cost, and its limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import pytest

from testbed.node.algorithms.divshare import DivShare
from testbed.node.fragments import partition
from testbed.node.kinds import FRAGMENT
from testbed.node.life import Reason
from testbed.node.messages import Message
from tests.node.small_world import Outcome, Quadratic, World, full
from tests.node.vectors import vector

FLUSH = {"policy": "flush", "in_flight": 2}
EVALUATED = {"every": 1, "mode": "after"}


def world(n: int, *, outbox: object = FLUSH, **more: Any) -> World:
    options: dict[str, object] = {each: more.pop(each) for each in ("fraction", "recipients", "reseed") if each in more}
    experiment = {"outbox": outbox, "evaluation": EVALUATED, **more.pop("experiment", {})}
    return World(n, algorithm={"name": "divshare", **options}, experiment=experiment, **more)


def at_once(n: int, **more: Any) -> World:
    """Messages take no time."""
    return world(n, latency_s=lambda _sender, _to: 0.0, rate_bps=inf, **more)


@dataclass
class Heard:
    """What arrived where and when, and what was shipped in which order."""

    world: World
    arrived: dict[int, list[tuple[float, int, Message]]] = field(default_factory=lambda: defaultdict(list))
    shipped: dict[int, list[tuple[int, Message]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.world.on_arrival = self._arrive
        self.world.before_shipping = lambda sender, to, message: self.shipped[sender].append((to, message))

    def _arrive(self, sender: int, to: int, message: Message) -> None:
        assert self.world.clock is not None
        self.arrived[to].append((self.world.clock.now(), sender, message))


def in_all(outcome: Outcome, rank: int, what: str) -> int:
    return sum(getattr(each, what) for each in outcome.rounds(rank))


# -- what it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [1, 2, None])
@pytest.mark.parametrize("fraction", [1.0, 0.3, 0.125])
def test_with_all_recipients_and_no_delay_it_is_dpsgd_on_the_full_graph(fraction: float, in_flight: int | None) -> None:
    n, rounds = 5, 6
    outbox = {"policy": "flush", **({} if in_flight is None else {"in_flight": in_flight})}
    ours = at_once(n, fraction=fraction, recipients=n - 1, rounds=rounds, outbox=outbox).run()
    theirs = World(n, graph=full(n), rounds=rounds, experiment={"evaluation": EVALUATED}).run()
    for round_ in range(rounds):
        for rank in range(n):
            np.testing.assert_allclose(ours.evaluated[rank, round_], theirs.evaluated[rank, round_], rtol=0, atol=2e-6)
    assert ours.shipped.payload == theirs.shipped.payload
    assert np.abs(theirs.models[0]).max() > 0.1


@pytest.mark.parametrize("reseed", ["never", "round"])
@pytest.mark.parametrize("outbox", [FLUSH, {"policy": "fifo"}], ids=["flush", "fifo"])
def test_every_model_is_what_the_formula_says(outbox: object, reseed: str) -> None:
    """A second implementation, from the specification and from what arrived when: six nodes, of different speeds.

    Rounds are taken by their ends: what arrives was sent at the end of an earlier one.
    """
    n, rounds = 6, 12
    scene = world(n, fraction=0.2, recipients=3, rounds=rounds, outbox=outbox, reseed=reseed)
    scene.dimension, scene.rate_bps, scene.steps = 23, 4e5, 2
    scene.first_model = lambda learner: vector(23, learner)
    scene.step_s = lambda learner, _step: 0.005 * (1 + learner)
    scene.latency_s = lambda sender, to: 0.003 + 0.002 * sender + 0.001 * to
    heard = Heard(scene)
    outcome = scene.run()
    learners = [Quadratic(scene, None, rank) for rank in range(n)]  # type: ignore[arg-type]
    models, before_s = [vector(23, rank).astype(np.float64) for rank in range(n)], [0.0] * n
    sent: dict[tuple[int, int], np.ndarray] = {}
    mixed = 0
    ends = [(record, each) for each in range(n) for record in outcome.rounds(each)]
    for record, rank in sorted(ends, key=lambda end: end[0].t):
        x, round_ = models[rank], record.round
        for step in (2 * round_, 2 * round_ + 1):
            x = x - 0.1 * learners[rank].slope(x.astype(np.float32), step)
        sent[rank, round_] = x
        newest: dict[tuple[int, object], Message] = {}
        for t, sender, message in heard.arrived[rank]:
            if before_s[rank] < t <= record.t:
                newest[sender, message.fields["part"]] = message
        sums, counts = x.copy(), np.ones(23)
        for (sender, part), message in newest.items():
            order = np.argsort(np.random.PCG64(message.fields["seed"]).random_raw(23), kind="stable")  # type: ignore[arg-type]
            places = np.array_split(order, 5)[part]  # type: ignore[call-overload]
            sums[places] += sent[sender, message.round][places]
            counts[places] += 1
        models[rank], before_s[rank] = sums / counts, record.t
        np.testing.assert_allclose(outcome.evaluated[rank, round_], models[rank], rtol=0, atol=1e-5)
        assert record.aggregated == len(newest)
        mixed += len(newest)
    assert mixed > 250
    first_end_s = min(record.t for record, _ in ends if record.round == rounds - 1)
    dropped = sum(record.dropped for record, _ in ends if record.t < first_end_s)  # not for peers that have finished
    assert (dropped > 0) == (outbox == FLUSH)


def test_what_is_sent_is_the_model_after_training_and_before_mixing() -> None:
    scene = at_once(3, fraction=0.5, recipients=2, rounds=1)
    heard = Heard(scene)
    scene.run()
    for rank in range(3):
        learner = Quadratic(scene, None, rank)  # type: ignore[arg-type]
        trained = -0.1 * learner.slope(np.zeros(8, np.float32), 0)
        assert len(heard.shipped[rank]) == 4
        for _, message in heard.shipped[rank]:
            (values,), part = message.payload, int(str(message.fields["part"]))
            places = partition(int(str(message.fields["seed"])), 8, 2)[part]
            np.testing.assert_allclose(values.view(np.float32), trained[places], atol=1e-6)


@pytest.mark.parametrize("policy", ["flush", "fifo", "latest"])
def test_one_fragment_is_what_swift_random_sends(policy: str) -> None:
    """The same draws and the same outbox, so the same models: headers apart, they are one algorithm."""
    n, outbox = 6, {"policy": policy, "in_flight": 2}
    ours = world(n, fraction=1.0, recipients=3, rounds=10, dimension=500, outbox=outbox)
    theirs = world(n, rounds=10, dimension=500, outbox=outbox)
    theirs.algorithm = {"name": "swift-random", "recipients": 3}
    found = []
    for scene in (ours, theirs):
        scene.rate_bps = inf  # a header would take time
        scene.step_s = lambda learner, _step: 0.01 * (1 + learner % 3)
        scene.latency_s = lambda sender, _to: 0.013 if sender == 0 else 0.004
        found.append(scene.run())
    one, other = found
    for rank in range(n):
        np.testing.assert_allclose(one.models[rank], other.models[rank], rtol=0, atol=2e-6)
        for what in ("aggregated", "dropped", "expired", "staleness_mean"):
            assert in_all(one, rank, what) == in_all(other, rank, what)
    assert one.shipped.payload == other.shipped.payload
    assert one.shipped.messages == other.shipped.messages
    assert (in_all(one, 0, "dropped") > 0) == (policy != "fifo")
    assert np.ptp(one.models, axis=0).max() > 0.01


# -- recipients and order ------------------------------------------------------------------------------------------


def test_every_fragment_has_different_recipients_of_its_own() -> None:
    n, count, rounds = 8, 3, 30
    scene = at_once(n, fraction=0.2, recipients=count, rounds=rounds)
    heard = Heard(scene)
    scene.run()
    pairs = np.zeros((n, n))
    alike = 0
    for rank in range(n):
        chosen = defaultdict(list)
        for to, message in heard.shipped[rank]:
            chosen[message.round, message.fields["part"]].append(to)
            pairs[rank, to] += 1
        assert len(chosen) == rounds * 5
        assert all(len(set(to)) == len(to) == count and rank not in to for to in chosen.values())
        alike += sum(set(chosen[round_, 0]) == set(chosen[round_, 1]) for round_ in range(rounds))
    assert alike < 20, "drawn alike by chance: 240 times 1 / 35"
    # 150 draws with chance 3/7: 64 expected, standard deviation 6.
    assert pairs[~np.eye(n, dtype=bool)].min() > 38
    assert pairs[~np.eye(n, dtype=bool)].max() < 90


@pytest.mark.parametrize(("nodes", "count"), [(1, 0), (2, 1), (5, 3), (9, 4), (16, 4), (17, 5)])
def test_a_fragment_goes_to_the_logarithm_of_the_number_of_nodes(nodes: int, count: int) -> None:
    scene = at_once(nodes, fraction=0.5, rounds=2)
    outcome = scene.run()
    for rank in range(nodes):
        assert [each.sent.messages for each in outcome.rounds(rank)] == [2 * count] * 2


@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.3, 0.1])
def test_every_byte_is_known_beforehand(fraction: float) -> None:
    """J models a round, whatever the fraction; smaller fragments have more headers."""
    n, count, dimension, rounds = 6, 2, 101, 3
    parts = round(1 / fraction)
    scene = at_once(n, fraction=fraction, recipients=count, dimension=dimension, rounds=rounds)
    heard = Heard(scene)
    outcome = scene.run()
    for rank in range(n):
        assert [each.sent.payload for each in outcome.rounds(rank)] == [count * 4 * dimension] * rounds
        assert [each.sent.messages for each in outcome.rounds(rank)] == [count * parts] * rounds
        headers = [len(message.header) for _, message in heard.shipped[rank]]
        assert outcome.end(rank).sent.metadata == sum(headers)
        assert max(headers) <= 56
    assert outcome.shipped.payload == outcome.arrived.payload


def test_fragments_leave_in_random_order() -> None:
    scene = at_once(4, fraction=0.1, recipients=3, rounds=1, outbox={"policy": "flush", "in_flight": 1}, dimension=50)
    heard = Heard(scene)
    scene.run()
    orders = [[(message.fields["part"], to) for to, message in heard.shipped[rank]] for rank in range(4)]
    for order in orders:
        parts = [part for part, _ in order]
        assert parts != sorted(parts)  # type: ignore[type-var]
        assert len(set(parts[:10])) > 4, "the first third is of all parts"


# -- slow links ----------------------------------------------------------------------------------------------------


def slow(outbox: object, **more: Any) -> World:
    """What node 0 sends takes five times as long as a round."""
    scene = world(4, fraction=0.1, recipients=3, rounds=40, dimension=200, outbox=outbox, steps=5, **more)
    scene.latency_s = lambda sender, _to: 0.02 if sender == 0 else 0.0
    scene.rate_bps = inf
    return scene


def test_a_slow_node_delivers_a_random_part_of_every_model_to_random_nodes() -> None:
    """Thirty fragments a round, of which a few leave: without flushing they would be old, without shuffling alike."""
    scene = slow(FLUSH)
    heard = Heard(scene)
    outcome = scene.run()
    slow_ones = [(to, message) for to, message in heard.shipped[0] if message.round < 39]
    by_part, by_node = Counter(message.fields["part"] for _, message in slow_ones), Counter(to for to, _ in slow_ones)
    assert len(slow_ones) < 39 * 10, "most are dropped"
    assert min(by_part[part] for part in range(10)) > 0.4 * len(slow_ones) / 10
    assert max(by_part.values()) < 2 * len(slow_ones) / 10
    assert min(by_node.values()) > 0.8 * len(slow_ones) / 3
    dropped = in_all(outcome, 0, "dropped")
    assert dropped + len(slow_ones) == 39 * 30
    assert dropped > 700
    assert in_all(outcome, 1, "dropped") == 0
    assert max(each.staleness_max for rank in (1, 2, 3) for each in outcome.rounds(rank)) <= 2


def test_nothing_of_an_earlier_round_leaves_after_the_flush() -> None:
    """DivShare's published code sends one more, over a new socket."""
    scene = slow(FLUSH)
    heard = Heard(scene)
    scene.run()
    for rank in range(4):
        rounds = [message.round for _, message in heard.shipped[rank]]
        assert rounds == sorted(rounds)


def test_without_flushing_what_a_slow_node_sends_becomes_older_and_older() -> None:
    outcome = slow({"policy": "fifo", "in_flight": 2}).run()
    assert in_all(outcome, 0, "dropped") == 0
    ages = [each.staleness_max for each in outcome.rounds(1)]
    assert max(ages) > 20
    assert max(ages[-10:]) > max(ages[:10])
    assert all(outcome.end(rank).rounds == 40 for rank in range(4))


# -- slow nodes ----------------------------------------------------------------------------------------------------


def test_a_slow_learner_mixes_the_newest_of_each_fragment_once() -> None:
    """DivShare's published code counts those that were overwritten as received."""
    scene = world(4, fraction=0.25, recipients=3, rounds=None, experiment={"stop": {"time": "3s"}})
    scene.step_s = lambda learner, _step: 1.0 if learner == 0 else 0.1
    scene.early = [(3.95, rank, Reason.STOPPED) for rank in range(4)]
    heard = Heard(scene)
    outcome = scene.run()
    first, second, *_ = outcome.rounds(0)
    assert [each.aggregated for each in (first, second)] == [12, 12], "four fragments of three nodes"
    for record, since in ((first, 0.0), (second, first.t)):
        arrived = [message for t, _, message in heard.arrived[0] if since < t <= record.t]
        assert len(arrived) == record.aggregated + record.expired
        assert record.expired >= 90
    assert second.staleness_max == 0, "the others are ahead"
    assert outcome.end(0).rounds == 3
    assert outcome.end(1).rounds > 35


def test_what_arrives_while_a_node_trains_waits_and_nothing_is_lost() -> None:
    scene = world(5, fraction=0.2, recipients=2, rounds=20, step_s=lambda learner, _step: 0.01 * (1 + learner))
    heard = Heard(scene)
    outcome = scene.run()
    for rank in range(5):
        last_s = outcome.rounds(rank)[-1].t
        arrived = sum(t <= last_s for t, _, _ in heard.arrived[rank])
        assert in_all(outcome, rank, "aggregated") + in_all(outcome, rank, "expired") == arrived


def test_no_node_ever_waits() -> None:
    scene = world(5, fraction=0.2, rounds=10, step_s=lambda learner, _step: 0.01 * (1 + learner))
    scene.latency_s = lambda _sender, _to: 3.0
    outcome = scene.run()
    for rank in range(5):
        np.testing.assert_allclose([each.t for each in outcome.rounds(rank)], 0.01 * (1 + rank) * np.arange(1, 11))
        assert in_all(outcome, rank, "aggregated") == 0


# -- nodes that go -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [Reason.LEFT, Reason.STOPPED])
def test_a_node_that_is_gone_delays_no_round(reason: Reason) -> None:
    scene = world(4, fraction=0.25, rounds=20)
    whole = scene.run()
    scene.early = [(0.055, 2, reason)]
    outcome = scene.run()
    assert outcome.end(2).rounds == 5
    for rank in (0, 1, 3):
        assert outcome.reasons[rank] is Reason.FINISHED
        assert [each.t for each in outcome.rounds(rank)] == [each.t for each in whole.rounds(rank)]


def test_nodes_that_have_finished_get_no_fragments() -> None:
    """Node 0 has done its rounds at 0.1 s, the others at 0.2 s: from then on all fragments go to them."""
    scene = world(4, fraction=0.5, recipients=2, rounds=10)
    scene.step_s = lambda learner, _step: 0.01 if learner == 0 else 0.02
    heard = Heard(scene)
    outcome = scene.run()
    assert outcome.end(0).t < 0.13
    for rank in (1, 2, 3):
        late = [(to, message) for to, message in heard.shipped[rank] if message.round >= 7]
        assert len(late) == 3 * 2 * 2
        assert not any(to == 0 for to, _ in late)
        assert any(to == 0 for to, _ in heard.shipped[rank])


def test_a_node_whose_peers_have_all_finished_goes_on_alone() -> None:
    scene = world(3, fraction=0.5, rounds=10, step_s=lambda learner, _step: 0.1 if learner == 2 else 0.01)
    outcome = scene.run()
    assert outcome.end(2).rounds == 10
    assert [each.sent.messages for each in outcome.rounds(2)][2:] == [0] * 8


def test_fragments_by_another_seed_end_the_run_with_the_senders_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = DivShare._recipients

    def spoiling(self: DivShare, node: Any, count: int, drawn: Any) -> list[int]:
        if node.rank == 2:
            wrong = Message(FRAGMENT, 0, {"part": 0, "parts": 2, "seed": 5}, (np.zeros(4, np.float32),))
            node.send(0, wrong)
        return sent(self, node, count, drawn)

    monkeypatch.setattr(DivShare, "_recipients", spoiling)
    outcome = world(3, fraction=0.5, rounds=9).run()
    failure = outcome.end(0).failure
    assert failure is not None
    assert failure.message.startswith("node2 sent a model that cannot be used: a fragment by the seed 5 arrived")


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fraction": 0.0}, r"fraction \(the paper's omega\) is above 0 and at most 1, not 0.0"),
        ({"fraction": 1.5}, "not 1.5"),
        ({"recipients": 0}, "recipients is at least 1, not 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DivShare(**options)


def test_more_recipients_than_others_are_refused() -> None:
    failure = world(4, recipients=4).run().end(0).failure
    assert failure is not None
    assert "a degree of 4 needs more than 4 learners" in failure.message


def test_options_mean_what_they_say() -> None:
    """DivShare's published driver passes them by position, one off: the fraction becomes the seed."""
    scene = at_once(5, fraction=0.5, recipients=2, reseed="round", rounds=3, seed=90)
    heard = Heard(scene)
    scene.run()
    messages = [message for rank in range(5) for _, message in heard.shipped[rank]]
    assert {message.fields["parts"] for message in messages} == {2}
    assert len({message.fields["seed"] for message in messages}) == 3
    assert len(messages) == 5 * 3 * 2 * 2
