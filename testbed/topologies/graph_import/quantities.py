"""Parses attributes of published graphs as quantities, and explains implausible values.

Takes attribute values of any type, gives numbers or words; touches nothing.
"""

from __future__ import annotations

from math import isfinite

from testbed.units import MAX_LATENCY_MS, MAX_RATE_BPS, UnitError, parse_latency_ms, parse_rate_bps, shown

MOST_KM = 100_000.0
_LEAST_RATE_BPS = 1000.0


def finite(value: object) -> float | None:
    """A finite number, also from text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _number(value: object, most: float) -> float | None:
    number = finite(value)
    return number if number is not None and 0 <= number <= most else None


def milliseconds(value: object) -> float | None:
    number = _number(value, MAX_LATENCY_MS)
    if number is None and isinstance(value, str):
        try:
            return parse_latency_ms(value.strip())
        except UnitError:
            return None
    return number


def kilometres(value: object) -> float | None:
    return _number(value, MOST_KM)


def bits_per_second(value: object) -> float | None:
    number = _number(value, MAX_RATE_BPS)
    return None if number is None else _usable_rate(number)


def rate_with_unit(value: object) -> float | None:
    """A rate from text with a unit; values without one are ignored, since each collection means another unit."""
    try:
        return _usable_rate(parse_rate_bps("".join(value.split()))) if isinstance(value, str) else None
    except UnitError:
        return None


def _usable_rate(rate_bps: float) -> float | None:
    """Rounds to whole kbit/s, so that Kollaps can express it; None outside the allowed range."""
    return float(round(rate_bps / 1000) * 1000) if _LEAST_RATE_BPS <= rate_bps <= MAX_RATE_BPS else None


def what_is_wrong(value: object, most: float, unit: str) -> str:
    """Why a value is no quantity between 0 and `most`, quoting the value."""
    number = finite(value)
    if number is None:
        return f"is {shown(str(value))}, which is no number of {unit}"
    if number < 0:
        return f"is {shown(str(value))}, which is negative"
    return f"is {shown(str(value))}: more than {most:,.0f} {unit}".replace(",", " ")
