"""Peer sampling beside an algorithm: when nodes shuffle, what that costs, and which neighbours they are given."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from testbed.node.kinds import SHUFFLE_VIEWS, VIEWS_SHUFFLED
from testbed.node.messages import Message
from testbed.node.snapshots import newest_snapshot
from testbed.node.state import UnusableState
from testbed.plan.model import PlannedViews
from tests.node.crashing_world import Crash, CrashingWorld
from tests.node.small_world import Outcome, World

VIEWS = PlannedViews(size=4, shuffle=3, period_s=0.5)
ALGORITHM = """
import json

from testbed.node.algorithm import Algorithm


class Meets(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            drawn = await node.neighbours(round_)
            await node.sleep(1.0)
            assert drawn == await node.neighbours(round_)
            node.note("neighbours", json.dumps(drawn))
"""


def world(n: int = 10, rounds: int = 8, degree: int = 2, views: PlannedViews = VIEWS) -> World:
    """Nodes that gossip."""
    return World(n, algorithm={"name": "gossip"}, rounds=rounds, degree=degree, views=views)


def meeting(tmp_path: Path, n: int = 10, rounds: int = 20) -> World:
    """Nodes that draw neighbours, once a second, and do nothing with them."""
    (tmp_path / "meets.py").write_text(ALGORITHM)
    return replace(world(n, rounds), algorithm={"name": f"{tmp_path / 'meets.py'}:Meets"})


def drawn(outcome: Outcome, rank: int) -> list[list[int]]:
    return [json.loads(each.detail) for each in outcome.events(rank) if each.what == "neighbours"]


def test_neighbours_are_different_ones_of_all_over_time(tmp_path: Path) -> None:
    outcome = meeting(tmp_path).run()
    met = Counter[tuple[int, int]]()
    for rank in range(10):
        found = drawn(outcome, rank)
        assert len(found) == 20
        for ranks in found:
            assert ranks == sorted(set(ranks) - {rank})
            assert len(ranks) == 2
        met.update((rank, other) for ranks in found for other in ranks)
        assert len({tuple(ranks) for ranks in found}) > 5
    assert len(met) > 0.9 * 90, "every node meets nearly all others, though it knows 4 at a time"


def test_a_node_begins_one_shuffle_a_period_and_answers_those_of_others() -> None:
    sent: dict[tuple[int, str], list[float]] = defaultdict(list)
    scene = world()
    scene.on_post = lambda rank, _to, message: sent[rank, message.kind].append(scene.clock.now() if scene.clock else 0)
    scene.run()
    for rank in range(10):
        asked = sent[rank, SHUFFLE_VIEWS]
        assert 0 <= asked[0] < VIEWS.period_s
        assert [later - earlier for earlier, later in pairwise(asked)] == pytest.approx(
            [VIEWS.period_s] * (len(asked) - 1)
        )
    assert len({sent[rank, SHUFFLE_VIEWS][0] for rank in range(10)}) == 10, "each has its own phase"
    asked_in_all, answered_in_all = (
        sum(len(sent[rank, kind]) for rank in range(10)) for kind in (SHUFFLE_VIEWS, VIEWS_SHUFFLED)
    )
    assert 0.85 * asked_in_all < answered_in_all <= asked_in_all


def bytes_of(message: Message) -> int:
    """By the rules of msgpack, for small numbers: a byte each, and one for the length of what is short."""
    kind, entries = len(message.kind), len(message.fields["ranks"])  # type: ignore[arg-type]
    return 1 + (1 + kind) + 1 + 1 + (6 + 1 + entries) + (5 + 1 + entries) + 1 + 1


def test_shuffles_count_as_control_bytes() -> None:
    posted = defaultdict[int, list[Message]](list)
    scene = world()
    scene.on_post = lambda rank, _to, message: posted[rank].append(message)
    outcome = scene.run()
    for rank in range(10):
        shuffles = [each for each in posted[rank] if each.kind in (SHUFFLE_VIEWS, VIEWS_SHUFFLED)]
        assert all(1 <= len(each.fields["ranks"]) <= VIEWS.shuffle for each in shuffles)  # type: ignore[arg-type]
        sent = outcome.end(rank).sent
        expected = sum(map(bytes_of, shuffles))
        # What had not left when the node's work ended is cut.
        assert expected - 2 * bytes_of(shuffles[0]) <= sent.control <= expected
        assert sent.control > 0.8 * expected
    assert outcome.end(0).received.control > 0


@pytest.mark.parametrize("order", [range(9, -1, -1), (3, 1, 4, 0, 5, 9, 2, 6, 8, 7)])
def test_the_order_within_an_instant_does_not_matter(order: list[int]) -> None:
    scene = world()
    assert replace(scene, order=order).run().journals == scene.run().journals


def test_nodes_that_crashed_are_forgotten_and_the_others_still_meet(tmp_path: Path) -> None:
    dead, crashed_s, healed_s = (1, 4, 7), 3.0, 3.0 + 3 * VIEWS.size * VIEWS.period_s
    asked: list[tuple[float, int, int]] = []
    scene = meeting(tmp_path, rounds=30)
    running = CrashingWorld(scene, [Crash(crashed_s, rank) for rank in dead])
    clock = running._clock
    for node in running.nodes:
        node.world.on_post = lambda rank, to, _message: asked.append((clock.now(), rank, to))  # type: ignore[attr-defined]
    outcome = running.run()
    assert any(to in dead for t, _, to in asked if crashed_s < t < healed_s)
    assert not [each for each in asked if each[0] > healed_s and each[2] in dead]
    alive = sorted(set(range(10)) - set(dead))
    for rank in alive:
        later = drawn(outcome, rank)[-15:]
        assert all(len(ranks) == 2 for ranks in later)
        assert {other for ranks in later for other in ranks} <= set(alive)


def test_a_node_that_comes_back_goes_on_with_its_view(tmp_path: Path) -> None:
    scene = replace(world(rounds=4), folders=tmp_path, experiment={"rejoin": "last"})
    scene.run()
    saved = newest_snapshot(tmp_path / "3" / "snapshots", scene.dimension)
    assert saved is not None
    view = saved.state["view"]
    ages = dict(zip(view["ranks"], view["ages"], strict=True))  # type: ignore[call-overload]
    assert max(ages.values()) > 0
    first: list[Message] = []
    further = replace(scene, goes_on=4, rounds=6)
    further.on_post = lambda rank, _to, message: first.append(message) if rank == 3 else None
    further.run()
    message = next(each for each in first if each.kind == SHUFFLE_VIEWS and each.round == 0)
    sent = dict(zip(message.fields["ranks"], message.fields["ages"], strict=True))  # type: ignore[arg-type]
    assert sent.pop(3) == 0
    known = {rank: age + 1 for rank, age in ages.items()}
    assert sent.items() & known.items(), "a view that begins anew has no ages so far"


@pytest.mark.parametrize(
    "state",
    [{"ranks": [1, 1], "ages": [0, 0]}, {"ranks": [0], "ages": [0]}, {"ranks": [1, 2], "ages": [0]}, {"ranks": [99]}],
)
def test_the_view_of_another_run_is_refused(state: dict[str, list[int]]) -> None:
    node = CrashingWorld(world(), []).nodes[0]
    node.restore({"view": {"ranks": [1, 2], "ages": [0, 7]}})
    with pytest.raises(UnusableState, match="belongs to another run"):
        node.restore({"view": state})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"ranks": 3, "ages": [1]},
        {"ranks": ["a"], "ages": [1]},
        {"ranks": [-1, 3], "ages": [0, 0]},
        {"ranks": [77, 78, 79], "ages": [9, 9, 9]},
        {"ranks": [0, 1, 3], "ages": [1 << 40] * 3},
        {"ranks": [True], "ages": [1]},
        {"ranks": list(range(10)) * 9, "ages": [0] * 90},
    ],
)
def test_what_is_no_view_costs_nothing(fields: dict[str, object], tmp_path: Path) -> None:
    scene = meeting(tmp_path, rounds=6)
    running = CrashingWorld(scene, [])
    for t in (0.7, 1.9):
        for kind in (SHUFFLE_VIEWS, VIEWS_SHUFFLED):
            message = Message(kind, 0, fields)  # type: ignore[arg-type]
            running._clock.call_at(t, lambda message=message: running.nodes[5].mailbox.put(2, message))  # type: ignore[misc]
    outcome = running.run()
    assert {reason.value for reason in outcome.reasons} == {"finished"}
    assert all(len(ranks) == 2 and set(ranks) <= set(range(10)) for ranks in drawn(outcome, 5))
    for node in running.nodes:
        view = node.snapshot_parts()["view"]
        assert len(view["ranks"]) <= VIEWS.size  # type: ignore[arg-type]
        assert max(view["ages"]) < 100  # type: ignore[call-overload]


def test_two_nodes_have_each_other_and_one_has_none(tmp_path: Path) -> None:
    two = replace(meeting(tmp_path, 2, 5), views=PlannedViews(size=1, shuffle=1, period_s=0.5), degree=1).run()
    assert [drawn(two, 0), drawn(two, 1)] == [[[1]] * 5, [[0]] * 5]
    alone = replace(meeting(tmp_path, 1, 2), views=PlannedViews(size=0, shuffle=0, period_s=0.5), degree=0).run()
    assert drawn(alone, 0) == [[], []]
