"""Held against the slow and plain model: the same times and the same drops, whatever is offered and changed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.network.graph import Network, expand
from testbed.network.packets import Packets
from testbed.seeds import stream
from testbed.topologies.model import Bridge, Link, LinkProperties, QueueLimit, Service, Topology
from tests.examples import examples
from tests.network.packet_oracle import Oracle

SEED = 7
# No sums of these coincide but where links are alike: which of two goes first must not hang on rounding.
LATENCIES_MS = [0.0, 0.0713, 0.7307, 3.3371, 12.9173]
JITTERS_MS = [0.0, 0.1031, 1.7079]
LOSSES = [0.0, 0.0, 0.1373]
RATES_BPS = [math.inf, 1.0937e6, 10.3717e6, 103.7311e6, 1013.971e6]
QUEUES = [QueueLimit(ms=3.7193), QueueLimit(ms=41.3719), QueueLimit(size_bytes=9_973), QueueLimit(size_bytes=100_003)]
BACKGROUND = [0.0, 0.0, 0.3719, 0.8713]
STEPS_S = [0.0, 0.0, 0.0000193, 0.000271, 0.00317, 0.0371]


@st.composite
def properties(draw: st.DrawFn, jitter: bool) -> LinkProperties:
    rate = draw(st.sampled_from(RATES_BPS))
    return LinkProperties(
        latency_ms=draw(st.sampled_from(LATENCIES_MS)),
        rate_bps=rate,
        jitter_ms=draw(st.sampled_from(JITTERS_MS)) if jitter else 0.0,
        loss=draw(st.sampled_from(LOSSES)),
        queue=draw(st.sampled_from(QUEUES)),
        background_bps=0.0 if math.isinf(rate) else rate * draw(st.sampled_from(BACKGROUND)),
    )


@st.composite
def networks(draw: st.DrawFn, jitter: bool) -> Network:
    ends = [("a", "x"), ("x", "y"), ("y", "b")]
    ends += draw(st.lists(st.sampled_from([("x", "y"), ("a", "y"), ("a", "b"), ("b", "b")]), max_size=2))
    links = []
    for one, other in ends:
        shared = draw(st.booleans())
        there = Link(one, other, draw(properties(jitter)), origin_shared=shared and one == "a")
        back = Link(other, one, draw(properties(jitter)), dest_shared=shared and one == "a")
        links += [there, back]
    services = Service("a", replicas=draw(st.integers(1, 3))), Service("b", replicas=draw(st.integers(1, 2)))
    return expand(Topology("t", services, tuple(links), (Bridge("x"), Bridge("y"))))


OFFERS = st.tuples(
    st.just("offer"),
    st.sampled_from(STEPS_S),
    st.integers(0, 99),
    st.integers(0, 99),
    st.one_of(st.lists(st.integers(20, 1500), min_size=1, max_size=4), st.integers(1, 45).map(lambda n: [1500] * n)),
)
ADVANCES = st.tuples(st.just("advance"), st.sampled_from(STEPS_S))
FACTORS = [0.3137, 1.0, 3.1711]
CHANGES = st.tuples(
    st.just("change"),
    st.sampled_from(STEPS_S),
    st.lists(
        st.tuples(
            st.sampled_from(FACTORS),
            st.sampled_from(FACTORS),
            st.sampled_from([0.0, 0.3137]),
            st.integers(0, 5),
            st.sampled_from(BACKGROUND),
        ),
        min_size=1,
        max_size=7,
    ),
)

CUTS = st.tuples(st.just("cut"), st.sampled_from(STEPS_S), st.sets(st.integers(0, 4), max_size=2))
PARTITIONS = st.tuples(
    st.just("partition"), st.sampled_from(STEPS_S), st.lists(st.integers(-1, 1), min_size=5, max_size=5)
)


def changed(network: Network, pattern: list[tuple[float, float, float, int, float]]) -> Network:
    """The pattern repeated over all links: factors of rate and latency, loss, which are down, background."""
    rows = [pattern[link % len(pattern)] for link in range(network.link_count)]
    rate, latency, loss, down, background = (np.array(column) for column in zip(*rows, strict=True))
    rate_bps = network.rate_bps * rate
    return replace(
        network,
        rate_bps=rate_bps,
        latency_ms=network.latency_ms * latency,
        loss=loss.astype(float),
        up=down > 0,
        background_bps=np.where(np.isinf(rate_bps), 0.0, rate_bps) * background,
        queue_ms=network.queue_ms * latency,
    )


class Both:
    """The model and the oracle, told the same."""

    def __init__(self, network: Network, in_order: bool, window_s: float = 0.0) -> None:
        self.base = self.network = network
        self.cut: list[int] = []
        self.packets = Packets(network, seed=SEED, in_order=in_order, window_s=window_s)
        self.oracle = Oracle(network, SEED, in_order)
        self.now_s = self.told_s = 0.0
        self.arrived: dict[tuple[int, int], float] = {}
        self.order: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.sizes: dict[int, list[int]] = {}
        self.unreachable = 0

    def tell(self, story: list[tuple[object, ...]]) -> None:
        for what, step_s, *more in story:
            assert isinstance(step_s, float)
            self.now_s += step_s
            if what == "offer":
                self.offer(*more)  # type: ignore[arg-type]
            elif what == "advance":
                self.advance(self.now_s)
            else:
                self.change(what, more[0])
        while (next_s := self.packets.next_s()) < math.inf:
            self.now_s = max(next_s, self.now_s)
            self.advance(self.now_s)
        self.oracle.run(math.inf)

    def change(self, what: object, how: Any) -> None:
        count = self.base.node_count
        if what == "cut":
            self.packets.uncut(self.now_s, *self.cut)
            self.cut = [rank for rank in how if rank < count]
            self.packets.cut(self.now_s, *self.cut)
        else:
            parted = (np.array(how[:count]),) if what == "partition" else self.network.partitions
            network = self.network if what == "partition" else changed(self.base, how)
            self.network = replace(network, partitions=parted)
            self.packets.change(self.now_s, self.network)
        self.oracle.change(self.now_s, self.network, self.cut)
        self.told_s = self.now_s

    def offer(self, one: int, other: int, sizes: list[int]) -> None:
        count = self.base.node_count
        origin, dest = one % count, other % count
        self.oracle.run(math.nextafter(self.now_s, 0.0))
        number = self.packets.offer(self.now_s, origin, dest, sizes)
        assert number == self.oracle.offer(self.now_s, origin, dest, sizes)
        self.told_s = self.now_s
        if number is None:
            self.unreachable += len(sizes)
        else:
            self.sizes[number] = sizes

    def advance(self, to_s: float) -> None:
        next_s = self.packets.next_s()
        found = self.packets.advance(to_s)
        assert not found or next_s <= max(found[0].due_s, self.told_s), "something arrived before it was announced"
        assert [each.due_s for each in found] == sorted(each.due_s for each in found)
        for each in found:
            assert each.due_s <= to_s
            for piece in each.pieces:
                assert (each.segment, piece) not in self.arrived
                self.arrived[each.segment, piece] = each.due_s
                self.order.setdefault((each.origin, each.dest), []).append((each.segment, piece))
        self.oracle.run(to_s)
        self.told_s = to_s

    def compare(self, window_s: float = 0.0) -> None:
        assert self.arrived == pytest.approx(self.oracle.handed_over(window_s), abs=1e-9)
        snapshot = self.packets.snapshot()
        links = snapshot.links
        dropped: Counter[tuple[str, int]] = Counter()
        for kind, counts in (
            ("queue", links.dropped_queue),
            ("loss", links.dropped_loss),
            ("down", links.dropped_down),
        ):
            dropped.update({(kind, int(link)): int(n) for link, n in zip(links.link, counts, strict=True) if n})
        assert dropped == self.oracle.dropped
        for link, waited_s in zip(links.link.tolist(), links.queue_s.tolist(), strict=True):
            assert waited_s == pytest.approx(self.oracle.waited[link], abs=1e-6)
        offered = sum(map(len, self.sizes.values()))
        assert snapshot.in_flight == 0
        assert snapshot.no_path == self.unreachable
        assert int(snapshot.pairs.offered_packets.sum()) == offered + self.unreachable
        assert offered == len(self.arrived) + sum(dropped.values())
        arrived_bytes = sum(self.sizes[segment][piece] for segment, piece in self.arrived)
        assert int(snapshot.pairs.arrived_bytes.sum()) == arrived_bytes


SLOW = settings(max_examples=examples(120), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@SLOW
@given(networks(jitter=True), st.booleans(), st.lists(st.one_of(OFFERS, OFFERS, ADVANCES), max_size=40))
def test_the_same_times_and_drops(network: Network, in_order: bool, story: list[tuple[object, ...]]) -> None:
    both = Both(network, in_order)
    both.tell(story)
    both.compare()
    if in_order:
        for pieces in both.order.values():
            assert pieces == sorted(pieces)


@SLOW
@given(
    networks(jitter=False),
    st.sampled_from([0.0, 0.000517]),
    st.lists(st.one_of(OFFERS, OFFERS, ADVANCES, CHANGES, CUTS, PARTITIONS), max_size=40),
)
def test_the_same_times_and_drops_through_changes(
    network: Network, window_s: float, story: list[tuple[object, ...]]
) -> None:
    both = Both(network, in_order=True, window_s=window_s)
    both.tell(story)
    both.compare(window_s)


@SLOW
@given(networks(jitter=True), st.lists(st.one_of(OFFERS, OFFERS, ADVANCES), max_size=30))
def test_pieces_reported_together_are_late_by_no_more_than_the_window(
    network: Network, story: list[tuple[object, ...]]
) -> None:
    both = Both(network, in_order=True, window_s=0.0005)
    both.tell(story)
    both.compare(window_s=0.0005)
    for pieces in both.order.values():
        assert pieces == sorted(pieces)


CROWDED = [
    LinkProperties(3.3371, 103.7311e6, 0.5219, 0.0137, QueueLimit(ms=41.3719)),
    LinkProperties(2.7307, 61.3717e6, 0.4513, 0.0137, QueueLimit(ms=41.3719)),
    LinkProperties(1.9173, 97.3711e6, 0.2917, 0.0, QueueLimit(size_bytes=200_003), 11.37e6),
    LinkProperties(31.713, 123.971e6, 0.0, 0.0, QueueLimit(ms=9.713)),
]


def crowd(changes: bool) -> tuple[Network, list[tuple[object, ...]]]:
    """Four nodes that send much over shared links, with long last ones and no advances."""
    ends = ("a", "x"), ("b", "x"), ("x", "y"), ("y", "c")
    links = [Link(*each, shown) for each, shown in zip(ends, CROWDED, strict=True)]
    services = tuple(Service(name, replicas=2) for name in "abc")
    network = expand(Topology("t", services, tuple(links), (Bridge("x"), Bridge("y"))))
    if changes:
        network = replace(network, jitter_ms=np.zeros(network.link_count))
    draw = stream(SEED, "crowd")
    story: list[tuple[object, ...]] = []
    for number in range(240):
        if changes and number % 80 == 40:
            factors = (1.0, [0.3137, 3.1711, 1.0][number // 80], 0.0, 1, 0.0)
            story.append(("change", 0.0003117, [factors]))
        sizes = [1500] * draw.randrange(1, 45)
        story.append(("offer", draw.random() * 0.0021, draw.randrange(4), 4 + draw.randrange(2), sizes))
    return network, story


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("in_order", [True, False])
def test_crowded_links_carry_the_pieces_of_all_in_turn(in_order: bool, changes: bool) -> None:
    """As many pieces as can be are carried at once, and in the right order."""
    network, story = crowd(changes)
    both = Both(network, in_order)
    both.tell(story)
    both.compare()
    assert len(both.arrived) > 2000
    assert both.oracle.dropped.total() > 100


def test_a_packet_that_jitter_makes_early_comes_before_pieces_that_were_known_before() -> None:
    steady, shaky = LinkProperties(30.0, 12e6), LinkProperties(30.0, math.inf, jitter_ms=9.0)
    links = Link("a", "x", steady), Link("b", "x", shaky), Link("x", "c", LinkProperties(100.0, 12.37e6))
    services = Service("a"), Service("b", replicas=8), Service("c")
    both = Both(expand(Topology("t", services, links, (Bridge("x"),))), in_order=True)
    story: list[tuple[object, ...]] = [("offer", 0.0, 0, 9, [1500] * 45), ("advance", 0.0317)]
    both.tell(story + [("offer", 0.0002137, rank, 9, [1500]) for rank in range(1, 9)])
    both.compare()
    assert len(both.arrived) == 53
