"""When packets notice that a link has changed: found from when each was sent and how long it took."""

from __future__ import annotations

import pytest

from testbed.verify import judge
from testbed.verify.changes import noticed_s
from testbed.verify.judge import Verdict

BY_S = 0.025
BEFORE_S = 0.010
"""From the sender to the link."""


def probes(noticed: float, by_s: float = BY_S) -> list[tuple[float, float]]:
    """The link changes at 10 s; who comes to it so much later takes longer."""
    return [
        (sent_s, 0.040 + (by_s if sent_s + BEFORE_S - 10.0 >= noticed else 0.0))
        for sent_s in (9.0 + number * 0.002 for number in range(1000))
    ]


@pytest.mark.parametrize("by_s", [BY_S, -BY_S])
@pytest.mark.parametrize("noticed", [0.0, 0.03, 0.08, -0.08, 0.15])
def test_the_time_is_found(by_s: float, noticed: float) -> None:
    assert noticed_s(probes(noticed, by_s), 10.0, BEFORE_S, by_s) == pytest.approx(noticed, abs=0.0021)


def test_a_few_that_the_machine_held_up_do_not_matter() -> None:
    found = probes(0.01)
    for place in (480, 487, 300, 560, 620):
        found[place] = (found[place][0], 0.1)
    assert noticed_s(found, 10.0, BEFORE_S, BY_S) == pytest.approx(0.01, abs=0.0021)


def test_no_change_and_another_change_are_not_that_change() -> None:
    assert noticed_s(probes(99.0), 10.0, BEFORE_S, BY_S) is None
    assert noticed_s(probes(0.0, -BY_S), 10.0, BEFORE_S, BY_S) is None
    assert noticed_s(probes(0.0, 2 * BY_S), 10.0, BEFORE_S, BY_S) is None
    assert noticed_s([], 10.0, BEFORE_S, BY_S) is None


@pytest.mark.parametrize(
    ("noticed", "right"), [(0.0, True), (0.049, True), (-0.049, True), (0.051, False), (-0.051, False), (None, False)]
)
def test_fifty_milliseconds_are_allowed(noticed: float | None, right: bool) -> None:
    assert (judge.change("p", "change", "a → b", noticed).verdict is Verdict.OK) is right
