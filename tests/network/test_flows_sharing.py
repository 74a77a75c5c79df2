"""How links are divided: against filling them step by step, and against Kollaps' own figures."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.network.flows.bandwidth_sharing import Links, held_back, max_min, rtt_weighted
from testbed.network.graph import Floats
from tests.examples import examples
from tests.reference import REFERENCE, needs_reference

MOST = 1e6


def arrays(flows: list[list[int]], capacity: list[float]) -> tuple[Links, Floats]:
    width = max(map(len, flows)) or 1
    rows = [flow + [len(capacity)] * (width - len(flow)) for flow in flows]
    return np.array(rows, dtype=np.intp), np.array([*capacity, MOST])


def filled(flows: list[list[int]], capacity: list[int]) -> list[Fraction]:
    """Raises all rates together; who meets a full link stops."""
    rates = [Fraction(0)] * len(flows)
    growing = set(range(len(flows)))
    while growing:
        room = [Fraction(int(MOST)) - min(rates[flow] for flow in growing)]
        for link, most in enumerate(capacity):
            sharing = [flow for flow in growing if link in flows[flow]]
            if sharing:
                used = sum((rate for rate, links in zip(rates, flows, strict=True) if link in links), Fraction(0))
                room.append((most - used) / len(sharing))
        for flow in growing:
            rates[flow] += min(room)
        full = {link for link, most in enumerate(capacity)
                if sum(rate for rate, links in zip(rates, flows, strict=True) if link in links) >= most}  # fmt: skip
        growing = {flow for flow in growing if rates[flow] < MOST and not full & set(flows[flow])}
    return rates


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    capacity = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=7))
    links = st.sets(st.integers(0, len(capacity) - 1), max_size=4).map(sorted)
    return draw(st.lists(links, min_size=1, max_size=12)), capacity


@given(networks())
@settings(max_examples=examples(150), deadline=None)
def test_max_min_is_what_filling_gives(case: tuple[list[list[int]], list[int]]) -> None:
    flows, capacity = case
    rates = max_min(*arrays(flows, [float(most) for most in capacity]))
    assert rates == pytest.approx([float(rate) for rate in filled(flows, capacity)], rel=1e-9)


@given(networks(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_weighted_sharing_never_overloads_a_link(case: tuple[list[list[int]], list[int]], data: st.DataObject) -> None:
    flows, capacity = case
    links, most = arrays(flows, [float(rate) for rate in capacity])
    rtt = np.array(data.draw(st.lists(st.floats(1e-3, 1.0), min_size=len(flows), max_size=len(flows))))
    rates = rtt_weighted(links, most, rtt, most[links].min(axis=1))
    carried = np.bincount(links.ravel(), np.repeat(rates, links.shape[1]), minlength=most.size)
    assert (carried[:-1] <= most[:-1] * (1 + 1e-9)).all()
    assert (rates > 0).all()


def golden(section: str) -> list[float]:
    """What Kollaps gave each flow in the end, in Mbit/s."""
    text = (REFERENCE / "bandwidth_sharing_golden.txt").read_text()
    body = text.split(f"## {section}")[1].split("\n##")[0].strip().splitlines()
    last = body[-1] if body[-1].startswith("round") else "\n".join(body)
    return [float(found) for found in re.findall(r"cur=([0-9.]+)M", last)]


CASES = {
    "iperf3/topology.xml": ([50, 40, 40], [[0], [0], [0, 1]], [50, 10], [50, 50, 10]),
    "same, client2 demands only 5 Mb/s": ([50, 40, 40], [[0], [0], [0, 1]], [50, 10], [50, 5, 10]),
    "two clients only": ([50, 40], [[0], [0]], [50], [50, 50]),
    "example.xml": ([62, 62, 62], [[0], [0], [0, 1]], [50, 10], [50, 50, 10]),
    "DivShare star": ([4, 4, 4, 4], [[0], [0], [0], [0]], [12], [12] * 4),
    "one sender, three fast destinations": ([4, 4, 4], [[0, 1], [0, 2], [0, 3]], [60, 60, 60, 60], [60] * 3),
    "same, order reversed": ([4, 4], [[0, 1], [0, 2]], [60, 60, 12], [60, 12]),
}
"""Round-trip times, links of every flow, capacities, and what each flow would use."""


@needs_reference
@pytest.mark.parametrize("section", CASES)
def test_kollaps_figures_are_met(section: str) -> None:
    rtt, flows, capacity, used = CASES[section]
    links, most = arrays(flows, [float(rate) for rate in capacity])
    rates = rtt_weighted(links, most, np.array(rtt) / 1e3, np.array(used, dtype=np.float64))
    expected = golden(section)
    limited = [place for place, wish in enumerate(used) if wish < min(capacity[link] for link in flows[place])]
    for place, rate in enumerate(expected):
        # A flow that wants less than it may have is shaped to what it may have, and uses what it wants.
        assert rates[place] == pytest.approx(used[place] if place in limited else rate, abs=6e-4)


def test_the_first_flow_on_a_link_is_nothing_special() -> None:
    """Kollaps gives 12 + 30 or 12 + 48, whichever comes first."""
    for order in ((0, 1), (1, 0)):
        flows, used = ([[0, 1], [0, 2]], [12.0, 60.0])
        links, most = arrays([flows[place] for place in order], [60.0, 12.0, 60.0])
        rates = rtt_weighted(links, most, np.array([0.004, 0.004]), np.array([used[place] for place in order]))
        assert sorted(rates) == pytest.approx([12.0, 48.0])


def both_ways(slower: float, back: float = 8.0) -> list[float]:
    """Two senders over link 0, whose acknowledgements come back over link 1; one sender there, answered over link 0."""
    links = np.array([[0], [0], [1]], dtype=np.intp)
    capacity = np.array([8.0, back, 1e9])
    rates = np.minimum(max_min(links, capacity), 8.0)
    longer = held_back(rates, links, np.array([[1], [1], [0]]), capacity, np.full(3, slower))
    return [float(each) for each in rates / (1.0 + longer)]


def test_acknowledgements_that_meet_a_full_link_slow_their_flow_down() -> None:
    """All flows of both directions, by as much as is asked for."""
    assert both_ways(0.33) == pytest.approx([4.0 / 1.33, 4.0 / 1.33, 8.0 / 1.33])
    assert both_ways(0.02) == pytest.approx([4.0 / 1.02, 4.0 / 1.02, 8.0 / 1.02])
    assert both_ways(0.0) == [4.0, 4.0, 8.0]


def test_a_link_is_full_where_little_room_is_left() -> None:
    """The third flow leaves link 1 a twentieth or more: the first two are not held back, but it is, by theirs."""
    assert both_ways(0.33, back=8.0 / 0.94) == pytest.approx([4.0, 4.0, 8.0 / 1.33])
    assert both_ways(0.33, back=8.0 / 0.96) == pytest.approx([4.0 / 1.33, 4.0 / 1.33, 8.0 / 1.33])


def test_who_meets_nobody_on_the_way_back_is_not_held_back() -> None:
    """Two full links one after the other, and a way back that is empty, or has no limit at all."""
    links, capacity = np.array([[0, 1, 3]], dtype=np.intp), np.array([8.0, 8.0, 8.0, 8.0])
    for back in ([2, 3], [3, 3]):
        assert held_back(np.array([8.0]), links, np.array([back]), capacity, np.ones(1)).tolist() == [0.0]
