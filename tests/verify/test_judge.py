"""Verdicts: every bound has two sides, and a value just beyond either is found out."""

from __future__ import annotations

import statistics

import pytest

from testbed.seeds import stream
from testbed.verify import judge
from testbed.verify.judge import Row, Verdict


def normal(mean: float, deviation: float, count: int = 2000) -> list[float]:
    """Exactly that mean and deviation."""
    draws = stream(7, "judge")
    found = [draws.gauss(0.0, 1.0) for _ in range(count)]
    middle, spread = statistics.fmean(found), statistics.stdev(found)
    return [mean + deviation * (each - middle) / spread for each in found]


def is_right(row: Row) -> bool:
    assert row.verdict in (Verdict.OK, Verdict.WRONG)
    return row.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("measured_ms", "right"),
    [(10.0, True), (10.45, True), (9.55, True), (10.55, False), (9.45, False)],
)
def test_a_short_round_trip_may_be_half_a_millisecond_off(measured_ms: float, right: bool) -> None:
    assert is_right(judge.round_trip("p", 0.010, 0.0, [measured_ms / 1e3] * 50)) is right


@pytest.mark.parametrize(("measured_ms", "right"), [(201.9, True), (198.1, True), (202.1, False), (197.9, False)])
def test_a_long_one_by_a_hundredth(measured_ms: float, right: bool) -> None:
    assert is_right(judge.round_trip("p", 0.200, 0.0, [measured_ms / 1e3] * 50)) is right


def test_a_few_slow_answers_move_no_median() -> None:
    row = judge.round_trip("p", 0.010, 0.0, [0.010] * 95 + [0.3] * 5)
    assert is_right(row)
    assert "p99 300" in row.detail


def test_no_answer_is_wrong() -> None:
    assert not is_right(judge.round_trip("p", 0.010, 0.0, []))
    assert not is_right(judge.jitter("p", "jitter", 0.001, []))


def test_jitter_allows_a_median_its_chance_and_no_more() -> None:
    most_s = 3.3 * 1.2533 * 0.007 / 2000**0.5
    assert most_s > 0.0005
    assert is_right(judge.round_trip("p", 0.040, 0.007, [0.040 + 0.95 * most_s] * 2000))
    assert not is_right(judge.round_trip("p", 0.040, 0.007, [0.040 + 1.05 * most_s] * 2000))


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.14, True), (0.86, True), (1.16, False), (0.84, False)])
def test_jitter(factor: float, right: bool) -> None:
    assert is_right(judge.jitter("p", "jitter", 0.002, normal(0.03, 0.002 * factor))) is right


def test_a_machine_that_slept_once_has_no_other_jitter() -> None:
    delays = normal(0.03, 0.002)
    assert is_right(judge.jitter("p", "jitter", 0.002, [*delays, 0.5]))
    assert not is_right(judge.jitter("p", "jitter", 0.002, [*delays, *[0.5] * 30]))


def test_no_jitter_at_all_is_wrong_where_some_was_asked_for() -> None:
    assert not is_right(judge.jitter("p", "jitter", 0.002, [0.03] * 2000))


@pytest.mark.parametrize(
    ("share", "right"), [(0.965, True), (0.901, True), (1.0, True), (0.899, False), (1.001, False)]
)
def test_rate(share: float, right: bool) -> None:
    assert is_right(judge.rate("p", "rate", 1e7, share * 1e7, gated=True)) is right
    assert judge.rate("p", "rate", 1e7, share * 1e7, gated=False).verdict is Verdict.TOLD


@pytest.mark.parametrize(("missing", "right"), [(500, True), (578, True), (424, True), (590, False), (415, False)])
def test_loss_within_what_chance_allows(missing: int, right: bool) -> None:
    """Among 5 tests, each tail has a ten thousandth: 3.7 standard deviations of 22.2."""
    assert is_right(judge.loss("p", 0.01, 50_000, missing, tests=5)) is right


def test_false_alarms_of_all_loss_tests_together_are_rare() -> None:
    """The bounds are those of the binomial distribution, found by adding it up."""
    row = judge.loss("p", 0.3, 20, 6, tests=1)
    least, most = (int(word) for word in row.detail.split("between ")[1].split(";")[0].split(" and "))
    chances = [judge._binomial(20, 0.3, count) for count in range(21)]
    assert sum(chances) == pytest.approx(1.0)
    for tail, inside in ((sum(chances[:least]), chances[least]), (sum(chances[most + 1 :]), chances[most])):
        assert tail <= 0.0005 < tail + inside


def test_a_link_without_loss_loses_nothing_and_one_with_loss_something() -> None:
    assert is_right(judge.loss("p", 0.0, 2000, 0, tests=20))
    assert not is_right(judge.loss("p", 0.0, 2000, 1, tests=20))
    assert not is_right(judge.loss("p", 0.01, 50_000, 0, tests=20))


def test_drops_are_counted_exactly() -> None:
    assert is_right(judge.counted("p", 7, 7, 100, 100))
    assert not is_right(judge.counted("p", 7, 8, 100, 100))
    assert not is_right(judge.counted("p", 8, 7, 100, 100))
    assert not is_right(judge.counted("p", 7, 7, 100, 99))


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.14, True), (0.86, True), (1.16, False), (0.84, False)])
def test_queue(factor: float, right: bool) -> None:
    assert is_right(judge.queue("p", 0.05, 0.05 * factor)) is right


@pytest.mark.parametrize(
    ("factor", "is_full", "verdict"),
    [
        (1.0, True, Verdict.OK),
        (1.16, True, Verdict.WRONG),
        (0.84, True, Verdict.WRONG),
        (1.16, False, Verdict.WRONG),
        (1.0, False, Verdict.UNMEASURED),
        (0.84, False, Verdict.UNMEASURED),
    ],
)
def test_a_queue_that_was_never_full_is_too_long_or_not_judged(factor: float, is_full: bool, verdict: Verdict) -> None:
    assert judge.filled_queue("p", 0.05, 0.05 * factor, is_full=is_full).verdict is verdict


@pytest.mark.parametrize(
    ("shares", "wrong"),
    [
        ((0.24, 0.24, 0.24, 0.24), set()),
        ((0.34, 0.16, 0.24, 0.22), set()),
        ((0.36, 0.20, 0.20, 0.20), {"share"}),
        ((0.14, 0.27, 0.27, 0.27), {"share"}),
        ((0.22, 0.22, 0.22, 0.22), {"shares"}),
        ((0.26, 0.26, 0.26, 0.26), {"shares"}),
    ],
)
def test_shares_of_a_bottleneck(shares: tuple[float, ...], wrong: set[str]) -> None:
    rows = judge.shared([f"p{number}" for number in range(4)], 1e7, [share * 1e7 for share in shares])
    assert {row.what for row in rows if not is_right(row)} == wrong
    assert judge.is_fair(1e7, [share * 1e7 for share in shares]) is ("share" not in wrong)


def test_what_cubic_is_expected_to_reach() -> None:
    """RFC 9438, figure 7: 0.1 s, a packet in 10⁴ lost: 187 segments on the average; Reno's own law at short delays."""
    assert judge.predicted_cubic_bps(1e-4, 0.1) == pytest.approx(187 * 1448 * 8 / 0.1, rel=0.01)
    assert judge.predicted_cubic_bps(1e-2, 0.01) == pytest.approx(12.25 * 1448 * 8 / 0.01, rel=0.01)
