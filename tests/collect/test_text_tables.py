"""What people read: short, and never wrong by more than the digits shown."""

from __future__ import annotations

import pytest

from testbed.collect.text_tables import data, number, plus_minus, short


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9994, "9.99 kB"),
        (9996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (1_340_064_000, "1.34 GB"),
        (2**63, "9223 PB"),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert data(size) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0.000"), (1.25, "1.250"), (106.75, "106.8"), (12345.6, "12346"), (2e20, "2.000e+20")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "more", "text"),
    [
        (None, None, "–"),
        (0.8451, None, "0.845"),
        (0.8451, 0.0094, "0.845 ± 0.009"),
        (107.617, 10.845, "107.6 ± 10.8"),
        (2.3, 1234.5, "2 ± 1234"),
        (1e20, 1.0, "1.00e+20 ± 1.00e+00"),
    ],
)
def test_give_or_take(value: float | None, more: float | None, text: str) -> None:
    assert plus_minus(value, more) == text


def test_short() -> None:
    assert [short(each) for each in (None, 0.0404, 23.456, -1e30)] == ["–", "0.040", "23.46", "-1.00e+30"]
