"""Quantities: what they mean, what is refused, and that printing and parsing are inverse."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_latency_ms, "5ms", 5.0),
        (units.parse_latency_ms, "0.2s", 200.0),
        (units.parse_latency_ms, "150us", 0.15),
        (units.parse_latency_ms, ".5ms", 0.5),
        (units.parse_latency_ms, "0ms", 0.0),
        (units.parse_duration_s, "30s", 30.0),
        (units.parse_duration_s, "1h", 3600.0),
        (units.parse_duration_s, "2m", 120.0),
        (units.parse_duration_s, "2min", 120.0),
        (units.parse_duration_s, "250ms", 0.25),
        (units.parse_rate_bps, "10Mbps", 10e6),
        (units.parse_rate_bps, "1.5Gbps", 1.5e9),
        (units.parse_rate_bps, "256kbps", 256e3),
        (units.parse_rate_bps, "256Kbps", 256e3),
        (units.parse_rate_bps, "1bps", 1.0),
        (units.parse_rate_bps, "unlimited", math.inf),
        (units.parse_background_bps, "0Mbps", 0.0),
        (units.parse_loss, "1%", 0.01),
        (units.parse_loss, "0.01", 0.01),
        (units.parse_loss, "100%", 1.0),
        (units.parse_loss, "1", 1.0),
        (units.parse_accuracy, "70%", 0.7),
        (units.parse_accuracy, "0.7", 0.7),
        (units.parse_size_bytes, "512MB", 512 * 10**6),
        (units.parse_size_bytes, "64KiB", 65536),
        (units.parse_size_bytes, "1500B", 1500),
    ],
)
def test_meaning(parse: Callable[[str], float], text: str, value: float) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "word"),
    [
        (units.parse_latency_ms, "5", "no unit"),
        (units.parse_latency_ms, "-5ms", "negative"),
        (units.parse_latency_ms, "5 ms", "not a latency"),
        (units.parse_latency_ms, "5m", "unknown unit"),
        (units.parse_latency_ms, "nan", "not a latency"),
        (units.parse_latency_ms, "1e3ms", "not a latency"),
        (units.parse_latency_ms, "infms", "not a latency"),
        (units.parse_latency_ms, "", "not a latency"),
        (units.parse_latency_ms, "٣ms", "not a latency"),
        (units.parse_latency_ms, "2h", "unknown unit"),
        (units.parse_latency_ms, "3601s", "out of range"),
        (units.parse_rate_bps, "0Mbps", "more than 0"),
        (units.parse_rate_bps, "10mbps", "unknown unit"),
        (units.parse_rate_bps, "10MBps", "unknown unit"),
        (units.parse_rate_bps, "0.5bps", "whole number"),
        (units.parse_rate_bps, "1001Tbps", "out of range"),
        (units.parse_background_bps, "unlimited", "cannot be unlimited"),
        (units.parse_loss, "50", "between 0 and 1"),
        (units.parse_loss, "101%", "between 0 and 1"),
        (units.parse_loss, "1ms", "not a loss"),
        (units.parse_accuracy, "70", "an accuracy lies between 0 and 1"),
        (units.parse_size_bytes, "1.5B", "whole number"),
        (units.parse_size_bytes, "9" * 100 + "B", "too long"),
    ],
)
def test_refused(parse: Callable[[str], float], text: str, word: str) -> None:
    with pytest.raises(units.UnitError, match=word) as refused:
        parse(text)
    assert refused.value.hint


def test_the_hint_corrects_the_case_of_a_unit() -> None:
    with pytest.raises(units.UnitError) as refused:
        units.parse_rate_bps("10mbps")
    assert "did you mean `10Mbps`" in refused.value.hint


_decimals = st.decimals(min_value=0, max_value=10**6, places=9, allow_nan=False).map(lambda value: format(value, "f"))


@given(_decimals)
def test_latency_reads_back(number: str) -> None:
    latency_ms = units.parse_latency_ms(number + "ms")
    assert units.parse_latency_ms(units.format_latency(latency_ms)) == latency_ms


@given(_decimals)
def test_duration_reads_back(number: str) -> None:
    duration_s = units.parse_duration_s(number + "s")
    assert units.parse_duration_s(units.format_duration(duration_s)) == duration_s


@given(st.integers(1, 10**15))
def test_rate_reads_back(rate_bps: int) -> None:
    assert units.parse_rate_bps(units.format_rate(float(rate_bps))) == rate_bps


@given(st.decimals(min_value=0, max_value=100, places=12).map(lambda value: format(value, "f")))
def test_loss_reads_back(percentage: str) -> None:
    loss = units.parse_loss(percentage + "%")
    assert units.parse_loss(units.format_loss(loss)) == loss


@given(st.integers(0, 2**50))
def test_size_reads_back(size: int) -> None:
    assert units.parse_size_bytes(units.format_size(size)) == size


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(1e9, "1Gbps"), (1.5e9, "1.5Gbps"), (100e6, "100Mbps"), (1234567.0, "1234.567kbps"), (12.0, "12bps")],
)
def test_rates_are_printed_in_a_fitting_unit(rate_bps: float, text: str) -> None:
    assert units.format_rate(rate_bps) == text
