"""Shatter: what virtual nodes send, what a node averages, and how it is epidemic learning."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from testbed.node.algorithms.shatter import Shatter
from testbed.node.life import Reason
from testbed.node.messages import Message
from testbed.node.virtual_nodes import VirtualNodes
from testbed.plan.overlay_graph import NoGraph
from testbed.records import Count
from tests.node.crashing_world import Crash, CrashingWorld
from tests.node.fragment_seed import seed_of
from tests.node.small_world import Quadratic, World
from tests.node.vectors import vector

EVALUATED = {"every": 1, "mode": "after"}


def world(n: int, name: str = "shatter", **more: Any) -> World:
    options: dict[str, object] = {
        each: more.pop(each) for each in ("mode", "fanout", "virtual_nodes", "degree") if each in more
    }
    experiment = {"evaluation": EVALUATED, **more.pop("experiment", {})}
    return World(n, algorithm={"name": name, **options}, experiment=experiment, **more)


# -- the graph -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "count", "degree"), [(5, 4, 3), (8, 2, 4), (3, 1, 2), (1, 6, 3), (4, 3, 11)])
def test_virtual_nodes_have_as_many_neighbours_and_links_go_both_ways(n: int, count: int, degree: int) -> None:
    learners = tuple(range(2, 2 + n))
    virtual = VirtualNodes(learners, count, degree, 7)
    links = {rank: list(virtual.links(rank, 3)) for rank in learners}
    both: Counter[tuple[tuple[int, int], tuple[int, int]]] = Counter()
    for rank, of_rank in links.items():
        assert Counter(link.own for link in of_rank) == dict.fromkeys(range(count), degree)
        both.update(((rank, link.own), (link.rank, link.other)) for link in of_rank)
    assert all(one != other and number == 1 == both[other, one] for (one, other), number in both.items())


def test_every_round_has_another_graph_in_which_all_pairs_are_as_likely() -> None:
    n, count, degree, rounds = 4, 3, 4, 400
    virtual = VirtualNodes(tuple(range(n)), count, degree, 1)
    pairs = np.zeros((n, n))
    for round_ in range(rounds):
        for link in virtual.links(0, round_):
            pairs[0, link.rank] += 1
    assert len({tuple(virtual.links(0, round_)) for round_ in range(20)}) == 20
    # 4800 links, to two of the other eleven virtual nodes or to three: standard deviations of 27 and 32 at most.
    np.testing.assert_allclose(pairs[0], 4800 * np.array([2, 3, 3, 3]) / 11, rtol=0, atol=5 * 32)


def test_a_graph_that_cannot_be_is_refused() -> None:
    with pytest.raises(NoGraph, match="no graph over 15 virtual nodes has degree 3 everywhere"):
        VirtualNodes((0, 1, 2), 5, 3, 1)
    with pytest.raises(NoGraph, match="a degree of 6 needs more than 6 virtual nodes"):
        VirtualNodes((0, 1, 2), 2, 6, 1)


# -- what it is ----------------------------------------------------------------------------------------------------


def test_with_one_virtual_node_it_is_epidemic_learning() -> None:
    n, rounds = 7, 6
    ours = world(n, virtual_nodes=1, degree=4, rounds=rounds).run()
    theirs = world(n, "epidemic", mode="oracle", fanout=4, rounds=rounds).run()
    for round_ in range(rounds):
        np.testing.assert_allclose(ours.models_after(round_, n), theirs.models_after(round_, n), rtol=0, atol=2e-6)
    assert np.ptp(ours.models, axis=0).max() > 0.01


@pytest.mark.parametrize(("count", "degree"), [(2, 4), (5, 3), (3, 12)])
def test_every_model_is_what_the_formula_says(count: int, degree: int) -> None:
    """A second implementation, step by step beside six nodes of different speeds. Links between virtual nodes of one
    node, and several links between those of two nodes, are among the draws."""
    n, rounds, size = 6, 8, 23
    scene = world(n, virtual_nodes=count, degree=degree, rounds=rounds, dimension=size, steps=2)
    scene.first_model = lambda learner: vector(size, learner)
    scene.step_s = lambda learner, _step: 0.01 * (1 + learner)
    outcome = scene.run()
    virtual = VirtualNodes(tuple(range(n)), count, degree, scene.seed)
    models = np.array([vector(size, rank) for rank in range(n)], np.float64)
    learners = [Quadratic(scene, None, rank) for rank in range(n)]  # type: ignore[arg-type]
    order = np.argsort(np.random.PCG64(seed_of(scene)).random_raw(size), kind="stable")
    chunks = np.array_split(order, count)
    own, again = 0, 0
    for round_ in range(rounds):
        for rank in range(n):
            for step in (2 * round_, 2 * round_ + 1):
                models[rank] -= 0.1 * learners[rank].slope(models[rank].astype(np.float32), step)
        sums, counts = models.copy(), np.ones_like(models)
        for rank in range(n):
            came: Counter[tuple[int, int]] = Counter()
            for link in virtual.links(rank, round_):
                places = chunks[link.other]
                sums[rank, places] += models[link.rank, places]
                counts[rank, places] += 1
                came[link.rank, link.other] += 1
                own += link.rank == rank
            again += sum(number > 1 for number in came.values())
        models = sums / counts
        np.testing.assert_allclose(outcome.models_after(round_, n), models, rtol=0, atol=1e-5)
    assert own
    assert again


def test_chunks_go_from_virtual_node_to_virtual_node_and_cross_the_network_between_nodes_only() -> None:
    n, count, degree, rounds = 5, 4, 3, 12
    scene = world(n, virtual_nodes=count, degree=degree, rounds=rounds)
    found: dict[tuple[int, int], Counter[tuple[int, object]]] = defaultdict(Counter)

    def ship(sender: int, to: int, message: Message) -> None:
        found[sender, message.round][to, message.fields["part"]] += 1

    scene.before_shipping = ship
    outcome = scene.run()
    virtual = VirtualNodes(tuple(range(n)), count, degree, scene.seed)
    for rank in range(n):
        taken = outcome.rounds(rank)
        for round_ in range(rounds):
            links = [link for link in virtual.links(rank, round_) if link.rank != rank]
            assert found[rank, round_] == Counter((link.rank, link.own + count * link.other) for link in links)
            assert taken[round_].aggregated == len(links)


@pytest.mark.parametrize(("count", "degree"), [(1, 4), (4, 3), (8, 4)])
def test_bytes_are_the_models_that_leave_and_headers(count: int, degree: int) -> None:
    n, size, rounds = 6, 96, 5
    scene = world(n, virtual_nodes=count, degree=degree, dimension=size, rounds=rounds)
    headers: list[int] = []
    scene.before_shipping = lambda _sender, _to, message: headers.append(len(message.header))
    outcome = scene.run()
    virtual = VirtualNodes(tuple(range(n)), count, degree, scene.seed)
    away = [
        sum(link.rank != rank for round_ in range(rounds) for link in virtual.links(rank, round_)) for rank in range(n)
    ]
    for rank in range(n):
        sent = outcome.end(rank).sent
        assert (sent.payload, sent.messages, sent.control) == (away[rank] * 4 * size // count, away[rank], 0)
    assert outcome.shipped == Count(sum(away) * 4 * size // count, sum(headers), 0, sum(away))
    assert max(headers) <= 56


def test_one_node_alone_is_not_changed_by_its_own_chunks() -> None:
    expected = World(1, graph=[[]], rounds=5).run().models[0]
    outcome = world(1, rounds=5).run()
    assert outcome.models[0].tobytes() == expected.tobytes()
    assert outcome.shipped.messages == 0


def test_more_virtual_nodes_than_parameters_are_as_many_as_parameters() -> None:
    outcome = world(4, virtual_nodes=100, degree=3, dimension=6, rounds=3).run()
    assert [outcome.end(rank).rounds for rank in range(4)] == [3] * 4


# -- nodes that go -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["skip", "wait"])
def test_a_node_that_leaves_is_not_waited_for(then: str) -> None:
    scene = world(5, virtual_nodes=4, rounds=12, experiment={"missing": {"after": "2s", "then": then}})
    scene.early = [(0.15, 2, Reason.LEFT)]
    outcome = scene.run()
    assert outcome.reasons[2] is Reason.LEFT
    for rank in (0, 1, 3, 4):
        assert (outcome.reasons[rank], outcome.end(rank).rounds) == (Reason.FINISHED, 12)
        assert outcome.end(rank).t < 1.0


def test_a_node_that_is_silent_costs_its_timeout_once() -> None:
    scene = world(5, virtual_nodes=4, rounds=12, experiment={"missing": {"after": "2s", "then": "skip"}})
    scene.lost = lambda sender, _to, message: sender == 2 and message.round >= 3
    outcome = scene.run()
    for rank in (0, 1, 3, 4):
        assert outcome.end(rank).rounds == 12
        assert outcome.end(rank).t < 6.0
        assert len([each for each in outcome.events(rank) if each.what == "peer-missing"]) == 1


@pytest.mark.parametrize("then", ["skip", "wait"])
@pytest.mark.parametrize("rejoin", ["fresh", "last"])
def test_a_node_that_comes_back_gets_every_chunk_again_and_goes_on(rejoin: str, then: str, tmp_path: Any) -> None:
    """Also those that it had got for several of its virtual nodes: nobody waits longer than it was away."""
    missing = {"missing": {"after": "1s", "then": then}}
    scene = world(4, virtual_nodes=4, degree=6, rounds=15, folders=tmp_path)
    scene.experiment = {**scene.experiment, **missing, "rejoin": rejoin, "snapshots": {"every": 1}}
    outcome = CrashingWorld(scene, [Crash(0.155, 2, 0.3, rejoin)]).run()
    for rank in range(4):
        ends = [each for each in outcome.records(rank) if type(each).__name__ == "End"]
        assert (ends[-1].reason, ends[-1].rounds) == ("finished", 15)  # type: ignore[union-attr]
    assert outcome.ended_s < 2.5
    spread = np.ptp(np.array(outcome.models), axis=0).max()
    assert spread < 0.5, "it mixes again"


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"virtual_nodes": 0}, "virtual_nodes .* is at least 1, not 0"),
        ({"degree": 0}, "degree .* is at least 1, not 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Shatter(**options)
