"""The compiled packet model held against the one in Python: the same arrivals and counts, bit by bit."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.engines.fabric.native_plane.packets import NativePackets
from testbed.network.graph import Network
from testbed.network.packets import Arrival, Packets
from tests.network.test_packets import LOSSY
from tests.network.test_packets_reference import (
    ADVANCES,
    CHANGES,
    CUTS,
    OFFERS,
    PARTITIONS,
    SEED,
    SLOW,
    STEPS_S,
    changed,
    crowd,
    networks,
)

TAKES = st.tuples(
    st.just("take"),
    st.sampled_from(STEPS_S),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 20),
    st.lists(st.sampled_from(STEPS_S), min_size=1, max_size=6),
)
SHAKES = st.tuples(st.just("shake"), st.sampled_from(STEPS_S), st.sampled_from([0.0, 0.0713, 1.1137]))
STORIES = st.lists(st.one_of(OFFERS, OFFERS, OFFERS, ADVANCES, CHANGES, CUTS, PARTITIONS, TAKES, SHAKES), max_size=60)


class Twins:
    """Both models, told the same."""

    def __init__(self, network: Network, **more: Any) -> None:
        self.network = self.base = network
        self.cut: set[int] = set()
        self.models = Packets(network, seed=SEED, **more), NativePackets(network, seed=SEED, **more)
        self.now_s = 0.0
        self.arrived: list[Arrival] = []

    def both(self, name: str, *told: Any) -> Any:
        """What both give, which is the same."""
        one, other = (getattr(model, name)(*told) for model in self.models)
        assert one == other
        return one

    def tell(self, story: list[tuple[Any, ...]]) -> None:
        count = self.network.node_count
        for what, step_s, *more in story:
            self.now_s += step_s
            if what == "offer":
                self.both("offer", self.now_s, more[0] % count, more[1] % count, more[2])
            elif what == "take":
                origin, dest, link, steps_s = more
                times_s = [self.now_s + sum(steps_s[: n + 1]) for n in range(len(steps_s))]
                self.take(link % self.network.link_count, origin % count, dest % count, times_s[::-1])
            elif what == "advance":
                self.advance(self.now_s)
            elif what == "cut":
                self.both("uncut", self.now_s, *self.cut)
                self.cut = {rank for rank in more[0] if rank < count}
                self.both("cut", self.now_s, *self.cut)
            else:
                self.network = self.after(what, more[0])
                self.both("change", self.now_s, self.network)
        while (next_s := min(model.next_s() for model in self.models)) < math.inf:
            self.advance(max(next_s, self.now_s))
        assert all(model.next_s() == math.inf for model in self.models)

    def take(self, link: int, origin: int, dest: int, times_s: list[float]) -> None:
        sizes = [1500 - 100 * n for n in range(len(times_s))]
        self.both("take", link, origin, dest, sizes, [*range(len(times_s))], times_s)

    def after(self, what: object, how: Any) -> Network:
        if what == "partition":
            return replace(self.network, partitions=(np.array(how[: self.network.node_count], dtype=np.int32),))
        if what == "shake":
            return replace(self.network, jitter_ms=np.full(self.network.link_count, how))
        return replace(changed(self.base, how), partitions=self.network.partitions)

    def advance(self, to_s: float) -> None:
        self.now_s = to_s
        one, other = (model.advance(to_s) for model in self.models)
        order = lambda each: (each.due_s, each.segment, each.pieces)  # noqa: E731 - groups due at once have no order
        assert sorted(one, key=order) == sorted(other, key=order)
        self.arrived += one

    def compare(self) -> None:
        one, other = (model.snapshot() for model in self.models)
        assert (one.at_s, one.no_path, one.in_flight) == (other.at_s, other.no_path, other.in_flight)
        for mine, others in ((one.links, other.links), (one.pairs, other.pairs)):
            for column, its in zip(astuple(mine), astuple(others), strict=True):
                np.testing.assert_array_equal(column, its)


@SLOW
@given(networks(jitter=True), st.booleans(), st.sampled_from([0.0, 0.000517]), st.sampled_from([0.0, 0.01]), STORIES)
def test_the_same_arrivals_and_counts(
    network: Network, in_order: bool, window_s: float, window_share: float, story: list[tuple[Any, ...]]
) -> None:
    twins = Twins(network, in_order=in_order, window_s=window_s, window_share=window_share, time_scale=1.5)
    twins.tell(story[: len(story) // 2])
    twins.compare()
    twins.tell(story[len(story) // 2 :])
    twins.compare()


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("in_order", [True, False])
def test_the_same_on_crowded_links(in_order: bool, changes: bool) -> None:
    network, story = crowd(changes)
    twins = Twins(network, in_order=in_order)
    twins.tell(story)
    twins.compare()
    assert len(twins.arrived) > 200


def test_a_change_in_the_past_is_refused_and_changes_nothing() -> None:
    twins = Twins(LOSSY)
    twins.both("offer", 0.0, 0, 1, [1500] * 3)
    twins.advance(1.0)
    for model in twins.models:
        with pytest.raises(ValueError, match="backwards"):
            model.cut(0.5, 1)
        with pytest.raises(ValueError, match="backwards"):
            model.change(0.5, replace(LOSSY, up=~LOSSY.up))
    twins.both("cut", 1.0, 2)
    for dest in (1, 2, 3):
        twins.both("offer", 1.0, 0, dest, [1500] * 3)
    twins.advance(2.0)
    twins.compare()
