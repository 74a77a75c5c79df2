"""The mean of curves that change at different moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collect.time_to_target import Curve, looked_before, mean_curve, time_to


def curve(*points: tuple[float, float], start_s: float = 0.0) -> Curve:
    values = np.array(points, dtype=np.float64).reshape(-1, 2)
    return Curve(start_s, values[:, 0], values[:, 1])


def test_every_node_counts_with_its_latest_value() -> None:
    mean = mean_curve([curve((1, 0.2), (3, 0.4)), curve((2, 0.6), (3, 0.8))])
    assert mean.t.tolist() == [2, 3]
    assert mean.value == pytest.approx([0.4, 0.6])


def test_one_that_joins_late_counts_from_its_first_value_on() -> None:
    mean = mean_curve([curve((1, 0.9)), curve((10, 0.1), start_s=5.0)])
    assert mean.t.tolist() == [1, 10]
    assert mean.value == pytest.approx([0.9, 0.5])


def test_one_that_was_there_is_waited_for() -> None:
    assert mean_curve([curve((1, 0.9)), curve((10, 0.1), start_s=1.0)]).t.tolist() == [10]


def test_nobody_was_evaluated() -> None:
    assert time_to(0.0, mean_curve([curve()])) is None
    assert time_to(0.0, mean_curve([])) is None


def test_a_mean_that_rounding_puts_below_the_target_has_reached_it() -> None:
    assert time_to(0.7, mean_curve([curve((1.0, 0.1), (2.0, 0.7)) for _ in range(10)])) == 2.0
    assert time_to(0.7, mean_curve([curve((2.0, 0.699)) for _ in range(10)])) is None


def test_it_is_the_first_time_even_if_it_gets_worse() -> None:
    assert time_to(0.5, mean_curve([curve((1, 0.6), (2, 0.4), (3, 0.7))])) == 1.0


@pytest.mark.parametrize(
    ("t", "since"),
    [
        (1.0, 0.0),
        (1.2, 0.0),  # the second node is seen for the first time
        (2.0, 1.0),
        (2.2, 1.2),  # the first node was seen at 2.0 for the last time: it says nothing about how often
        (3.2, 2.2),
    ],
)
def test_since_when_nobody_had_looked(t: float, since: float) -> None:
    assert looked_before(t, [curve((1.0, 0.1), (2.0, 0.2)), curve((1.2, 0.1), (2.2, 0.2), (3.2, 0.3))]) == since


def test_in_the_middle_of_a_wave_the_one_before_counts() -> None:
    nodes = [curve((1.0, 0.1), (2.0, 0.2), (3.0, 0.3)), curve((1.2, 0.1), (2.2, 0.2), (3.2, 0.3))]
    assert looked_before(2.0, nodes) == 1.0
    assert looked_before(2.2, nodes) == 1.2
    assert looked_before(3.0, nodes) == 2.0


def test_one_that_is_first_seen_later_does_not_count() -> None:
    assert looked_before(2.0, [curve((1.0, 0.1), (2.0, 0.2)), curve((5.0, 0.1), start_s=0.5)]) == 1.0
    assert looked_before(5.0, [curve((4.0, 0.1), (5.0, 0.2)), curve((5.0, 0.1), start_s=3.5)]) == 3.5


POINTS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 100)), min_size=1, max_size=8, unique_by=lambda point: point[0]
)


@given(st.lists(POINTS, min_size=1, max_size=5), st.integers(0, 100))
def test_the_same_as_asking_at_every_moment(nodes: list[list[tuple[int, int]]], percent: int) -> None:
    curves = [sorted(points) for points in nodes]

    def mean_at(moment: int) -> float | None:
        latest = [[value for t, value in points if t <= moment] for points in curves]
        return sum(values[-1] for values in latest) / len(latest) if all(latest) else None

    expected = next((t for t in range(21) if (mean := mean_at(t)) is not None and mean >= percent - 1e-6), None)
    found = mean_curve([curve(*((t, value / 100) for t, value in points)) for points in curves])
    assert time_to(percent / 100, found) == expected
