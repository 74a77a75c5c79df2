"""Mosaic: epidemic learning in fragments. What goes where, what is averaged, and how it is epidemic learning."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import Any

import numpy as np
import pytest

from testbed.node.algorithms.mosaic import Mosaic
from testbed.node.life import Reason
from testbed.node.messages import Message
from testbed.node.recipients import independent
from testbed.records import Count
from tests.node.fragment_seed import seed_of
from tests.node.small_world import Quadratic, World
from tests.node.vectors import vector

EVALUATED = {"every": 1, "mode": "after"}
ENDS = ("notify", "timeout", "expected")


def world(n: int, name: str = "mosaic", **more: Any) -> World:
    options: dict[str, object] = {
        each: more.pop(each) for each in ("mode", "fragments", "fanout", "round_end", "timeout") if each in more
    }
    experiment = {"evaluation": EVALUATED, **more.pop("experiment", {})}
    return World(n, algorithm={"name": name, **options}, experiment=experiment, **more)


def shipped(scene: World) -> dict[tuple[int, int, object], list[int]]:
    """Recipients of each fragment, by sender, round and part; filled while the world runs."""
    found: dict[tuple[int, int, object], list[int]] = defaultdict(list)

    def ship(sender: int, to: int, message: Message) -> None:
        if message.payload:
            found[sender, message.round, message.fields["part"]].append(to)

    scene.before_shipping = ship
    return found


# -- what it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_end", ENDS)
def test_with_one_fragment_it_is_epidemic_learning(round_end: str) -> None:
    """The same draws, so the same models; headers differ by what a fragment says of itself."""
    n, rounds = 7, 6
    options: dict[str, Any] = {"fanout": 2, "round_end": round_end, "timeout": "50ms", "rounds": rounds}
    ours = world(n, fragments=1, **options).run()
    theirs = world(n, "epidemic", mode="local", **options).run()
    for round_ in range(rounds):
        np.testing.assert_allclose(ours.models_after(round_, n), theirs.models_after(round_, n), rtol=0, atol=2e-6)
    for rank in range(n):
        for mine, other in zip(ours.rounds(rank), theirs.rounds(rank), strict=True):
            assert (mine.sent.payload, mine.sent.messages, mine.aggregated, mine.staleness_max) == (
                other.sent.payload,
                other.sent.messages,
                other.aggregated,
                other.staleness_max,
            )
    assert np.ptp(ours.models, axis=0).max() > 0.01


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_every_model_is_what_the_formula_says(parts: int) -> None:
    """A second implementation, step by step beside six nodes of different speeds: from the recipients that were seen,
    the mean of each parameter over the own trained model and all that came."""
    n, rounds = 6, 8
    scene = world(
        n,
        fragments=parts,
        fanout=2,
        rounds=rounds,
        dimension=23,
        steps=2,
        first_model=lambda learner: vector(23, learner),
    )
    scene.step_s = lambda learner, _step: 0.01 * (1 + learner)
    seen = shipped(scene)
    outcome = scene.run()
    models = np.array([vector(23, rank) for rank in range(n)], np.float64)
    learners = [Quadratic(scene, None, rank) for rank in range(n)]  # type: ignore[arg-type]
    order = np.argsort(np.random.PCG64(seed_of(scene)).random_raw(23), kind="stable")
    for round_ in range(rounds):
        for rank in range(n):
            for step in (2 * round_, 2 * round_ + 1):
                models[rank] -= 0.1 * learners[rank].slope(models[rank].astype(np.float32), step)
        sums, counts = models.copy(), np.ones_like(models)
        for part, places in enumerate(np.array_split(order, parts)):
            for sender in range(n):
                for to in seen[sender, round_, part]:
                    sums[to, places] += models[sender, places]
                    counts[to, places] += 1
        models = sums / counts
        np.testing.assert_allclose(outcome.models_after(round_, n), models, rtol=0, atol=1e-5)


def test_every_fragment_has_different_recipients_of_its_own_every_round() -> None:
    n, parts, fanout, rounds = 9, 4, 3, 40
    scene = world(n, fragments=parts, fanout=fanout, rounds=rounds)
    seen = shipped(scene)
    scene.run()
    pairs = np.zeros((n, n))
    for (sender, _, _), to in seen.items():
        assert len(set(to)) == len(to) == fanout
        assert sender not in to
        pairs[sender, to] += 1
    assert len(seen) == n * rounds * parts
    alike = sum(
        set(seen[sender, round_, 0]) == set(seen[sender, round_, 1]) for sender in range(n) for round_ in range(rounds)
    )
    assert alike < 25, "drawn alike by chance: 360 times 1 / 56"
    # 160 draws with chance 3/8: 60 expected, standard deviation 6.1.
    assert pairs[~np.eye(n, dtype=bool)].min() > 33
    assert pairs[~np.eye(n, dtype=bool)].max() < 88


def test_draws_of_parts_and_rounds_are_apart_and_all_nodes_draw_the_same() -> None:
    learners = tuple(range(3, 12))
    first = independent(7, learners, 3, 5, 4)
    assert independent(7, learners, 3, 5, 2) == first[:2]
    assert independent(7, learners, 3, 5)[0] == first[0]
    assert len({tuple(drawn[4]) for round_ in range(20) for drawn in independent(7, learners, 3, round_, 4)}) > 30


# -- bytes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_fragments_cost_headers_and_nothing_else(parts: int) -> None:
    n, fanout, dimension = 6, 2, 101
    scene = world(n, fragments=parts, fanout=fanout, dimension=dimension, rounds=3)
    headers: list[int] = []
    scene.before_shipping = lambda _sender, _to, message: headers.append(len(message.header))
    outcome = scene.run()
    for rank in range(n):
        sent = outcome.end(rank).sent  # a round may be over before its last fragment has left
        assert (sent.payload, sent.messages, sent.control) == (3 * fanout * 4 * dimension, 3 * fanout * parts, 0)
    assert outcome.shipped == Count(n * 3 * fanout * 4 * dimension, sum(headers), 0, n * 3 * fanout * parts)
    assert max(headers) <= 56


def test_notify_costs_a_small_message_for_every_fragment_that_another_node_does_not_get() -> None:
    n, parts, fanout, rounds = 7, 3, 2, 4
    outcome = world(n, fragments=parts, fanout=fanout, round_end="notify", rounds=rounds).run()
    small = len(Message("fragment", 0, {"part": 0}).header)
    for rank in range(n):
        end = outcome.end(rank)
        assert end.sent.messages == end.received.messages == parts * (n - 1) * rounds
        assert end.sent.control == parts * (n - 1 - fanout) * rounds * small
    assert small <= 22


# -- the end of a round --------------------------------------------------------------------------------------------


def test_all_three_ends_of_a_round_average_the_same() -> None:
    models = []
    for round_end in ENDS:
        outcome = world(8, fragments=3, round_end=round_end, timeout="1s", rounds=5).run()
        models.append([model.tobytes() for model in outcome.models])
        assert sum(each.aggregated for rank in range(8) for each in outcome.rounds(rank)) == 8 * 3 * 3 * 5
        assert all(each.expired == 0 for rank in range(8) for each in outcome.rounds(rank))
    assert models[0] == models[1] == models[2]


def test_a_timeout_takes_what_is_there_and_older_rounds_too() -> None:
    scene = world(3, fragments=2, fanout=2, round_end="timeout", timeout="100ms", rounds=5)
    scene.latency_s = lambda sender, _to: 0.052 if sender == 0 else 0.01
    outcome = scene.run()
    for rank in (1, 2):  # the second of the two fragments has to wait for the first one
        rounds = outcome.rounds(rank)
        assert [each.aggregated for each in rounds] == [3, 4, 4, 4, 4]
        assert [each.staleness_max for each in rounds] == [0, 1, 1, 1, 1]


def test_expected_waits_for_the_nodes_that_have_drawn_it_and_for_no_others() -> None:
    """Node 3 takes 5 s a step: those that get none of its fragments go on."""
    scene = world(8, fragments=2, fanout=1, rounds=1)
    scene.step_s = lambda learner, _step: 5.0 if learner == 3 else 0.01
    seen = shipped(scene)
    outcome = scene.run()
    waited = {rank for rank in range(8) if outcome.end(rank).t > 5}
    assert waited == {3, *seen[3, 0, 0], *seen[3, 0, 1]}


def test_a_node_that_is_ahead_is_buffered_part_by_part() -> None:
    usual = world(5, fragments=3, rounds=5)
    slow = world(5, fragments=3, rounds=5, latency_s=lambda _sender, to: 3.0 if to == 2 else 0.01)
    assert [each.tobytes() for each in slow.run().models] == [each.tobytes() for each in usual.run().models]


# -- nodes that go -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["skip", "wait"])
@pytest.mark.parametrize("round_end", ["notify", "expected"])
def test_a_node_that_leaves_is_not_waited_for(round_end: str, then: str) -> None:
    scene = world(5, fragments=3, round_end=round_end, rounds=12, experiment={"missing": {"after": "2s", "then": then}})
    scene.early = [(0.15, 2, Reason.LEFT)]
    outcome = scene.run()
    assert outcome.reasons[2] is Reason.LEFT
    for rank in (0, 1, 3, 4):
        assert (outcome.reasons[rank], outcome.end(rank).rounds) == (Reason.FINISHED, 12)
        assert outcome.end(rank).t < 1.0


@pytest.mark.parametrize("round_end", ENDS)
def test_a_node_that_is_silent_costs_its_timeout_once(round_end: str) -> None:
    """For all of its fragments together; what is missing counts as expired."""
    scene = world(5, fragments=3, round_end=round_end, timeout="100ms", rounds=12)
    scene.experiment = {"missing": {"after": "2s", "then": "skip"}}
    scene.lost = lambda sender, _to, message: sender == 2 and message.round >= 3
    outcome = scene.run()
    for rank in (0, 1, 3, 4):
        assert outcome.end(rank).rounds == 12
        assert outcome.end(rank).t < (1.5 if round_end == "timeout" else 6.0)
        silent = [each for each in outcome.events(rank) if each.what == "peer-missing"]
        assert len(silent) == (round_end != "timeout")
    expired = [sum(each.expired for each in outcome.rounds(rank)) for rank in (0, 1, 3, 4)]
    assert expired == ([27] * 4 if round_end == "notify" else expired)
    if round_end == "expected":
        assert sum(expired) == 3 * 3 * 9, "three fragments to three nodes in nine rounds"


def test_what_comes_late_expires_once_whatever_its_part() -> None:
    """Node 2 was given up in every round; what it sent comes all the same, and does not count twice."""
    scene = world(3, fragments=3, fanout=2, rounds=8, rate_bps=inf)
    scene.experiment = {"missing": {"after": "50ms", "then": "skip"}}
    scene.latency_s = lambda sender, _to: 0.06 if sender == 2 else 0.001
    outcome = scene.run()
    for rank in (0, 1):
        rounds = outcome.rounds(rank)
        assert sum(each.aggregated + each.expired for each in rounds) == 8 * 2 * 3


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fragments": 0}, "fragments is at least 1, not 0"),
        ({"fanout": -1}, "fanout cannot be negative"),
        ({"round_end": "never"}, "round_end is one of notify, timeout, expected, not 'never'"),
        ({"timeout": -1.0}, "timeout cannot be negative"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Mosaic(**options)


def test_more_recipients_than_others_are_refused() -> None:
    failure = world(4, fanout=4).run().end(0).failure
    assert failure is not None
    assert "a degree of 4 needs more than 4 learners" in failure.message
