"""CYCLON's exchange of views, without nodes: the paper's steps one by one, and what becomes of a whole network."""

from __future__ import annotations

from math import sqrt
from statistics import fmean, pstdev

import pytest

from testbed.node.cyclon_view import Entry, View
from testbed.plan.overlay_graph import components, graph_of
from testbed.seeds import stream

SIZE, SHUFFLE = 20, 8
NODES = (16, 64, 256)
SEEDS = range(3)


class Network:
    """Nodes that shuffle one after the other, and always get their answers."""

    def __init__(self, count: int, seed: int) -> None:
        """All begin with one entry: the overlay is a ring."""
        self._random = stream(seed)
        size = min(SIZE, count - 1)
        self.views = {
            rank: View(rank, size, SHUFFLE, stream(seed, str(rank)), [Entry((rank + 1) % count, 0)])
            for rank in range(count)
        }

    def shuffle(self, times: int) -> None:
        for _ in range(times):
            for rank in self._random.sample(list(self.views), len(self.views)):
                self._shuffle(rank)

    def _shuffle(self, rank: int) -> None:
        asked = self.views[rank].ask()
        assert asked is not None
        partner, entries = asked
        if partner in self.views:
            self.views[rank].answered(partner, self.views[partner].answer(rank, entries))

    def crash_a_third(self) -> set[int]:
        dead = set(self._random.sample(list(self.views), len(self.views) // 3))
        self.views = {rank: view for rank, view in self.views.items() if rank not in dead}
        return dead

    def known(self) -> dict[int, list[int]]:
        return {rank: [entry.rank for entry in view.entries] for rank, view in self.views.items()}

    def parts(self) -> int:
        place = {rank: at for at, rank in enumerate(self.views)}
        pairs = [(place[rank], place[other]) for rank, others in self.known().items() for other in others]
        return components(graph_of(len(place), pairs))


def in_degrees(network: Network) -> list[int]:
    known = [other for others in network.known().values() for other in others]
    return [known.count(rank) for rank in network.views]


# What becomes of a network


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", NODES)
def test_a_ring_is_connected_and_its_views_are_full_after_50_shuffles(count: int, seed: int) -> None:
    network = Network(count, seed)
    network.shuffle(50)
    assert network.parts() == 1
    for rank, others in network.known().items():
        assert len(set(others) - {rank}) == len(others) == min(SIZE, count - 1)


@pytest.mark.parametrize(("count", "least", "most"), [(16, 1.0, 1.0), (64, 0.8, 1.3), (256, 0.75, 1.0)])
def test_in_degrees_vary_as_in_a_random_graph(count: int, least: float, most: float) -> None:
    """In a random graph they are binomial. With views of all other nodes, they do not vary at all."""
    found = []
    for seed in SEEDS:
        network = Network(count, seed)
        network.shuffle(50)
        degrees = in_degrees(network)
        assert fmean(degrees) == min(SIZE, count - 1)
        found.append(pstdev(degrees))
    size = min(SIZE, count - 1)
    binomial = sqrt(size * (1 - size / (count - 1)))
    assert least * binomial <= fmean(found) <= most * binomial


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", NODES)
def test_a_network_heals_when_a_third_of_its_nodes_crash(count: int, seed: int) -> None:
    """Within three times as many periods as a view has entries."""
    network = Network(count, seed)
    network.shuffle(50)
    dead = network.crash_a_third()
    assert dead & {other for others in network.known().values() for other in others}
    network.shuffle(3 * SIZE)
    assert not dead & {other for others in network.known().values() for other in others}
    assert network.parts() == 1
    assert min(map(len, network.known().values())) == min(SIZE, len(network.views) - 1)


# The steps of one exchange


def view(ages: dict[int, int], size: int = 4, shuffle: int = 3) -> View:
    return View(0, size, shuffle, stream(1), [Entry(*each) for each in ages.items()])


def ages_of(view: View) -> dict[int, int]:
    return dict(view.entries)


def test_the_oldest_is_asked_and_gets_the_own_entry_instead_of_its_own() -> None:
    asking = view({1: 3, 2: 5, 3: 1, 4: 0})
    partner, entries = asking.ask() or (0, [])
    assert partner == 2
    assert entries[0] == Entry(0, 0)
    assert len(entries) == 3
    assert set(entries[1:]) < {(1, 4), (3, 2), (4, 1)}, "they have aged"
    assert ages_of(asking) == {1: 4, 2: 6, 3: 2, 4: 1}


def test_nodes_of_the_same_age_are_drawn() -> None:
    drawn = {
        (View(0, 4, 1, stream(seed), [Entry(rank, 2) for rank in (1, 2, 3)]).ask() or (0,))[0] for seed in range(20)
    }
    assert drawn == {1, 2, 3}


def test_what_comes_back_takes_empty_places_and_then_those_of_what_was_sent() -> None:
    asking = view({1: 3, 2: 5, 3: 1}, shuffle=2)
    partner, _ = asking.ask() or (0, [])
    asking.answered(partner, [Entry(7, 2), Entry(8, 4)])
    assert ages_of(asking) == {1: 4, 3: 2, 7: 2, 8: 4}, "one empty place, and that of the node that was asked"
    asking = view({1: 3, 2: 5, 3: 1, 4: 0}, shuffle=2)
    partner, entries = asking.ask() or (0, [])
    (sent,) = (entry.rank for entry in entries[1:])
    asking.answered(partner, [Entry(7, 2), Entry(8, 4), Entry(9, 0)])
    kept = {rank: age for rank, age in {1: 4, 3: 2, 4: 1}.items() if rank != sent}
    assert ages_of(asking) == {**kept, 7: 2, 8: 4}, "only what was sent is given away"


def test_own_and_known_entries_are_discarded() -> None:
    asking = view({1: 3, 2: 5, 3: 1, 4: 0})
    asking.ask()
    asking.answered(2, [Entry(0, 1), Entry(1, 0), Entry(3, 9)])
    assert ages_of(asking) == {1: 4, 2: 0, 3: 2, 4: 1}, "nothing took the place of the one asked, which lives"


def test_an_answer_is_random_without_the_one_that_asks_and_ages_nothing() -> None:
    found = set()
    for seed in range(20):
        answering = View(0, 4, 2, stream(seed), [Entry(rank, rank) for rank in (1, 2, 3, 4)])
        entries = answering.answer(3, [Entry(3, 0), Entry(7, 6)])
        assert len(entries) == 2
        found |= set(entries)
        assert ages_of(answering)[3] == 3, "the entry that is known stays as it is"
        assert ages_of(answering)[7] == 6
        assert 7 not in dict(entries)
        assert len(answering.entries) == 4
    assert found == {(1, 1), (2, 2), (4, 4)}


def test_a_silent_node_is_removed_and_older_news_of_it_are_not_believed() -> None:
    asking = view({1: 3, 2: 5}, size=3)
    asking.ask()
    assert 2 in ages_of(asking)
    asking.ask()
    assert 2 not in ages_of(asking)
    asking.answer(1, [Entry(2, 6)])
    asking.answer(1, [Entry(2, 1)])
    assert 2 not in ages_of(asking), "it was asked one shuffle ago"
    asking.answer(1, [Entry(2, 0)])
    assert ages_of(asking)[2] == 0


@pytest.mark.parametrize("asks", [False, True])
def test_a_node_that_is_heard_of_again_has_not_been_silent(asks: bool) -> None:
    asking = view({1: 3, 2: 5}, size=3)
    asking.ask()
    asking.ask()
    if asks:
        asking.answer(2, [])
    else:
        asking.answered(2, [])
        assert ages_of(asking)[2] == 0
        asking.forget([2])
    asking.answer(1, [Entry(2, 7)])
    assert ages_of(asking)[2] == 7


def test_an_answer_that_was_not_asked_for_changes_nothing() -> None:
    asking = view({1: 3, 2: 5})
    asking.ask()
    asking.answered(1, [Entry(7, 0)])
    assert ages_of(asking) == {1: 4, 2: 6}
    asking.answered(2, [Entry(7, 0)])
    asking.answered(2, [Entry(8, 0)])
    assert ages_of(asking) == {1: 4, 2: 0, 7: 0}


def test_a_view_without_entries_asks_no_one_and_can_be_filled() -> None:
    alone = view({1: 3})
    alone.forget([1, 9])
    assert alone.ask() is None
    alone.fill([5, 0, 6])
    assert ages_of(alone) == {5: 0, 6: 0}
