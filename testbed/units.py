"""Parse and print every quantity of the project: latency, rate, loss, duration, size.

Takes text, gives numbers in the unit that the function's name says, and back; touches nothing.
Printing and parsing again gives the same number, bit for bit. Units are always explicit: a bare
number is an error here (the XML reader adds the units that Kollaps' language leaves out).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache

UNLIMITED = math.inf
"""The rate of an unlimited link."""

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?|\.[0-9]{1,18})([A-Za-zµ%/]*)")
_SIGNED = re.compile(r"-[0-9.]")
_LONGEST_TEXT = 40
_DECIMALS = 12
"""Finer than any clock used, and coarse enough that every value can be printed in full and read back."""

_MILLISECONDS = {"us": Decimal("0.001"), "µs": Decimal("0.001"), "ms": Decimal(1), "s": Decimal(1000)}
_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "min": Decimal(60), "h": Decimal(3600)}
_BITS_PER_SECOND = {
    "bps": Decimal(1),
    "kbps": Decimal(10**3),
    "Kbps": Decimal(10**3),
    "Mbps": Decimal(10**6),
    "Gbps": Decimal(10**9),
    "Tbps": Decimal(10**12),
}
_BYTES = {
    "B": Decimal(1),
    "kB": Decimal(10**3),
    "KB": Decimal(10**3),
    "MB": Decimal(10**6),
    "GB": Decimal(10**9),
    "KiB": Decimal(2**10),
    "MiB": Decimal(2**20),
    "GiB": Decimal(2**30),
}

MAX_LATENCY_MS = 3_600_000.0
MAX_DURATION_S = 10.0 * 365 * 24 * 3600
MAX_RATE_BPS = 10**15
MAX_SIZE_BYTES = 2**50


class UnitError(ValueError):
    """A quantity cannot be parsed; says what was expected."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_text(text: str) -> bool:
    """Whether a string is valid Unicode; arguments may hold bytes that are not UTF-8, and JSON half a character."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def shown(text: str) -> str:
    """The text for quoting in an error message: bounded and without control characters."""
    cut = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
    return "`" + "".join(char if char.isprintable() else "�" for char in cut) + "`"


def _scaled(text: str, units: dict[str, Decimal], what: str, example: str) -> Decimal:
    hint = f"write a number and a unit, such as {example}; units: {', '.join(units)}"
    if len(text) > _LONGEST_TEXT:
        raise UnitError(f"{shown(text)} is too long for {what}", hint)
    if _SIGNED.match(text):
        raise UnitError(f"{what} must not be negative: {shown(text)}", hint)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        spaced = _QUANTITY.fullmatch("".join(text.split()))
        better = f"leave out the blank: `{spaced[0]}`" if spaced else hint
        raise UnitError(f"{shown(text)} is not {what}", better)
    number, unit = match.groups()
    if not unit:
        raise UnitError(f"{shown(text)} has no unit", hint)
    if unit not in units:
        close = next((known for known in units if known.lower() == unit.lower()), None)
        better = f"did you mean `{number}{close}`? (units: {', '.join(units)})" if close else hint
        raise UnitError(f"{shown(text)} is not {what}: unknown unit {shown(unit)}", better)
    return Decimal(number) * units[unit]


def _bounded(value: Decimal, limit: float, text: str, most: str) -> float:
    if value > Decimal(limit):
        raise UnitError(f"{shown(text)} is out of range", f"the most is {most}")
    return float(round(value, _DECIMALS))


def _whole(value: Decimal, limit: int, text: str, unit: str) -> int:
    if value > limit:
        raise UnitError(f"{shown(text)} is out of range", f"the most is {limit} {unit}")
    if value != value.to_integral_value():
        raise UnitError(f"{shown(text)} is not a whole number of {unit}", f"round it to a whole number of {unit}")
    return int(value)


@lru_cache(maxsize=4096)
def parse_latency_ms(text: str) -> float:
    """`5ms`, `0.2s`, `150us` → milliseconds."""
    return _bounded(_scaled(text, _MILLISECONDS, "a latency", "5ms"), MAX_LATENCY_MS, text, "1h, that is 3600s")


@lru_cache(maxsize=4096)
def parse_duration_s(text: str) -> float:
    """`30s`, `500ms`, `2m`, `1h` → seconds."""
    return _bounded(_scaled(text, _SECONDS, "a duration", "30s"), MAX_DURATION_S, text, "ten years")


@lru_cache(maxsize=4096)
def parse_rate_bps(text: str) -> float:
    """`10Mbps`, `1.5Gbps`, `256kbps` (decimal) or `unlimited` → bits per second, a whole number or infinity."""
    if text == "unlimited":
        return UNLIMITED
    rate = _whole(_scaled(text, _BITS_PER_SECOND, "a rate", "10Mbps"), MAX_RATE_BPS, text, "bits per second")
    if rate == 0:
        raise UnitError(
            f"a rate must be more than 0: {shown(text)}",
            "to cut a link, use an event with `state: down`; a link that nothing throttles is `unlimited`",
        )
    return float(rate)


@lru_cache(maxsize=4096)
def parse_background_bps(text: str) -> float:
    """The rate of background traffic: may be 0 and must be finite."""
    if text == "unlimited":
        raise UnitError("background traffic cannot be unlimited", "write a rate, such as 200Mbps")
    return float(_whole(_scaled(text, _BITS_PER_SECOND, "a rate", "10Mbps"), MAX_RATE_BPS, text, "bits per second"))


@lru_cache(maxsize=4096)
def parse_loss(text: str) -> float:
    """`1%` or `0.01` → a fraction between 0 and 1."""
    return _share(text, "a loss", "1%", "0.01")


def parse_accuracy(text: str) -> float:
    """`70%` or `0.7` → a fraction between 0 and 1."""
    return _share(text, "an accuracy", "70%", "0.7")


def _share(text: str, what: str, percentage: str, same: str) -> float:
    hint = f"write a percentage such as {percentage}, or a fraction between 0 and 1 such as {same}"
    if _SIGNED.match(text):
        raise UnitError(f"{what} must not be negative: {shown(text)}", hint)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None or match[2] not in ("", "%"):
        spaced = re.fullmatch(r"([0-9.]+)\s+%", text)
        raise UnitError(f"{shown(text)} is not {what}", f"leave out the blank: `{spaced[1]}%`" if spaced else hint)
    fraction = Decimal(match[1]) / (100 if match[2] else 1)
    if fraction > 1:
        better = hint if match[2] else f"did you mean {match[1]}%? " + hint
        raise UnitError(f"{what} lies between 0 and 1 (0% and 100%): {shown(text)}", better)
    return float(round(fraction, _DECIMALS))


@lru_cache(maxsize=4096)
def parse_size_bytes(text: str) -> int:
    """`512MB`, `64KiB`, `1500B` → bytes."""
    return _whole(_scaled(text, _BYTES, "a size", "512MB"), MAX_SIZE_BYTES, text, "bytes")


def format_number(value: float) -> str:
    """The shortest decimal that reads back as the same float, without an exponent."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_latency(latency_ms: float) -> str:
    return f"{format_number(latency_ms)}ms"


def format_duration(duration_s: float) -> str:
    return f"{format_number(duration_s)}s"


def format_rate(rate_bps: float) -> str:
    """The rate in the largest unit that needs at most three decimals."""
    if rate_bps == UNLIMITED:
        return "unlimited"
    for unit in ("Gbps", "Mbps", "kbps"):
        value = Decimal(int(rate_bps)) / _BITS_PER_SECOND[unit]
        if value >= 1 and value == round(value, 3):
            return f"{format_number(float(value))}{unit}"
    return f"{int(rate_bps)}bps"


def format_loss(loss: float) -> str:
    """A percentage if that reads back as the same number, else the fraction."""
    percentage = format_number(float(Decimal(repr(loss)) * 100)) + "%"
    try:
        return percentage if parse_loss(percentage) == loss else format_number(loss)
    except UnitError:
        return format_number(loss)


def size_for_people(size_bytes: float) -> str:
    """Three significant digits, as in `12.3 kB`; not to be read back."""
    size, units = float(size_bytes), iter(("B", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while size >= 999.5 and unit != "PB":
        size, unit = size / 1000, next(units)
    digits = 0 if unit == "B" or size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {unit}"


def format_size(size_bytes: int) -> str:
    for unit in ("GiB", "GB", "MiB", "MB", "KiB", "kB"):
        if size_bytes and size_bytes % int(_BYTES[unit]) == 0:
            return f"{size_bytes // int(_BYTES[unit])}{unit}"
    return f"{size_bytes}B"
