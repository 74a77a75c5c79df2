"""Converters of single values, from text and from JSON. Pure.

Every converter takes the text of a YAML file or an option, and the number or truth value of a plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from testbed.code import is_code
from testbed.errors import did_you_mean
from testbed.topologies.language import NUMBER_PATTERN, Problem, from_text, parse_boolean, parse_count, text_schema
from testbed.units import MAX_DURATION_S, UnitError, format_number, parse_duration_s, shown

Scalar = bool | int | float | str

_DECIMAL = re.compile(r"-?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_LARGEST = 3e38
"""The largest float32, the type of models."""
MOST = 10**12 - 1
"""The largest whole number that is accepted."""


def _number(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise Problem("bad-value", f"{shown(text)} is not a number", "write a number such as 0.5")
    return float(text)


def _whole_between(least: int, most: int = MOST, word: str | None = None) -> BeforeValidator:
    """`word` stands for a number without a limit."""

    def check(number: float) -> int:
        if isinstance(number, bool) or not isinstance(number, int):
            raise Problem("bad-value", f"{number} is not a whole number", "write a number such as 4")
        if not least <= number <= most:
            limit = f"at least {least}" if number < least else f"at most {most}"
            raise Problem("bad-value", f"this must be {limit}, not {number}", f"write a number from {least} on")
        return number

    def parse(text: str) -> int | str:
        if text == word:
            return text
        return check(int(text) if re.fullmatch(r"-[1-9][0-9]{0,9}", text) else parse_count(text))

    return from_text(parse, check)


def _real_between(least: float, most: float = math.inf, *, open_below: bool = False) -> BeforeValidator:
    low = f"above {least:g}" if open_below else f"at least {least:g}"
    limits = f"{low} and at most {most:g}" if math.isfinite(most) else low

    def check(number: float) -> float:
        if isinstance(number, bool) or not math.isfinite(number):
            raise Problem("bad-value", f"{number} is not a number", "write a number such as 0.5")
        if not least <= number <= most or (open_below and number == least):
            raise Problem("bad-value", f"this must be {limits}, not {number:g}", "")
        return float(number)

    return from_text(lambda text: check(_number(text)), check)


def _flag(value: float) -> bool:
    if isinstance(value, bool):
        return value
    raise Problem("bad-value", f"{value} is neither true nor false", "write true or false")


def _lasting(seconds: float) -> float:
    if isinstance(seconds, bool) or not 0 < seconds <= MAX_DURATION_S:
        raise Problem("bad-value", f"a time of {seconds:g}s is out of range", "write a time such as 60s")
    return float(seconds)


def _seconds(seconds: float) -> float:
    return 0.0 if seconds == 0 and not isinstance(seconds, bool) else _lasting(seconds)


_DURATION_PATTERN = NUMBER_PATTERN + "(ms|s|m|min|h)$"

Seed = Annotated[int, _whole_between(0), WithJsonSchema({"type": "integer", "minimum": 0})]
Count = Annotated[int, _whole_between(0), WithJsonSchema({"type": "integer", "minimum": 0})]
Positive = Annotated[int, _whole_between(1), WithJsonSchema({"type": "integer", "minimum": 1})]
PositiveOrFree = Annotated[
    int | str,
    _whole_between(1, word="free"),
    WithJsonSchema({"anyOf": [{"const": "free"}, {"type": "integer", "minimum": 1}]}),
]
"""A whole number from 1 on, or `free`: without a limit."""
Amount = Annotated[float, _real_between(0, _LARGEST), WithJsonSchema({"type": "number", "minimum": 0})]
"""A number that is not negative."""
Above = Annotated[
    float, _real_between(0, 1e9, open_below=True), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
"""A number above 0."""
Share = Annotated[
    float,
    _real_between(0, 1, open_below=True),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
"""A fraction above 0, up to 1."""
Chance = Annotated[float, _real_between(0, 1), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
AtLeastOne = Annotated[float, _real_between(1, 1e6), WithJsonSchema({"type": "number", "minimum": 1})]
Truth = Annotated[bool, from_text(parse_boolean, _flag), WithJsonSchema({"type": "boolean"})]
Lasting = Annotated[
    float,
    from_text(lambda text: _lasting(parse_duration_s(text)), _lasting),
    text_schema("string", pattern=_DURATION_PATTERN, examples=["60s"]),
]
"""A time above 0, in seconds."""


def _automatic(text: str) -> str | float:
    return text if text == "auto" else _above(_number(text))


def _above(number: float) -> float:
    if isinstance(number, bool) or not 0 < number <= 1e9:
        raise Problem("bad-value", f"this must be above 0, not {number:g}", "write a number, or `auto`")
    return float(number)


AutoOrAbove = Annotated[
    str | float,
    from_text(_automatic, _above),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "number", "exclusiveMinimum": 0}]}),
]


def _named(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise Problem("bad-value", "a name is expected here", "give one, or remove the key")
    return text


Name = Annotated[str, from_text(_named), text_schema("string")]
NodeName = Annotated[str, from_text(_named), text_schema("string", "number")]


def check_choice(name: str, built_in: Iterable[str]) -> str:
    """Checks the name of a built-in or of own code."""
    known = list(built_in)
    if is_code(name) or name in known:
        return name
    if name.endswith(".py"):
        raise Problem("bad-value", f"{shown(name)} does not say what is meant in it", f"write {name}:Name")
    hint = did_you_mean(name, known) or "known here: " + ", ".join(known)
    raise Problem(
        "bad-value", f"{shown(name)} is not known here", f"{hint} (or your own, as module:Name or file.py:Name)"
    )


def choice_schema(*built_in: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"enum": list(built_in)}, {"type": "string", "pattern": ":"}]})


def _as_it_is(value: object) -> object:
    """Keeps pydantic from validating the result of a converter again as JSON."""
    return value


def _free(value: object) -> Scalar | tuple[Scalar, ...] | None:
    """The value of an option of own code: a number, truth value or text, by its form."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return tuple(_scalar(item) for item in value)
    return _scalar(value)


def _scalar(value: object) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise Problem("bad-value", f"{value} is not a number", "")
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        raise Problem("bad-shape", "an option is a simple value or a list of them", "")
    if value in ("true", "false"):
        return value == "true"
    if _INTEGER.fullmatch(value):
        return int(value)
    if _DECIMAL.fullmatch(value) and not re.fullmatch(r"-?0[0-9].*", value) and math.isfinite(float(value)):
        return float(value)
    return value


Option = Annotated[
    bool | int | float | str | tuple[bool | int | float | str, ...] | None,
    PlainValidator(_free),
    PlainSerializer(_as_it_is),
    WithJsonSchema({"type": ["boolean", "number", "string", "array"]}),
]
"""A value of an option of own code."""


def _widths(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Widths = Annotated[
    tuple[Positive, ...],
    BeforeValidator(_widths),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "integer"}}]}),
]


def _pair(value: object) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Problem("bad-shape", "two factors are expected", "write [lowest, highest], such as [1, 4]")
    low, high = (_factor(item) for item in value)
    if low > high:
        raise Problem(
            "bad-value", f"{format_number(low)} is more than {format_number(high)}", "write the lower one first"
        )
    return low, high


def _factor(value: object) -> float:
    if not isinstance(value, str | int | float):
        raise Problem("bad-shape", "a factor is a number", "")
    number = _number(value) if isinstance(value, str) else float(value)
    if isinstance(value, bool) or not 0 < number <= 1e6:
        raise Problem("bad-value", f"a factor must be above 0, not {shown(str(value))}", "4 takes four times as long")
    return number


def read_trace(steps: Iterable[object]) -> tuple[tuple[float, float], ...]:
    """Reads a trace: ascending times, and the factors that hold from then on."""
    trace: list[tuple[float, float]] = []
    for step in steps:
        if not isinstance(step, list | tuple) or len(step) != 2:
            raise Problem("bad-shape", "a trace is a list of pairs", "write [[0s, 1], [30s, 4]]")
        at, factor = step
        if isinstance(at, str):
            at_s = _duration(at)
        elif isinstance(at, int | float):
            at_s = _seconds(at)
        else:
            raise Problem("bad-shape", "a trace is a list of pairs", "write [[0s, 1], [30s, 4]]")
        if trace and at_s <= trace[-1][0]:
            raise Problem("bad-value", f"{format_number(at_s)}s does not come later than the time before", "")
        trace.append((at_s, _factor(factor)))
    if not trace:
        raise Problem("bad-value", "a trace has at least one step", "write [[0s, 1], [30s, 4]]")
    return tuple(trace)


def _duration(text: str) -> float:
    try:
        return parse_duration_s(text)
    except UnitError as problem:
        raise Problem("bad-value", problem.message, problem.hint) from problem


def _trace(value: object) -> object:
    if isinstance(value, str):
        return _named(value)
    if not isinstance(value, list | tuple):
        raise Problem("bad-shape", "a trace is a list of pairs or a file", "write [[0s, 1], [30s, 4]]")
    return read_trace(value)


_STEP = {"type": "array", "minItems": 2, "maxItems": 2}
Range = Annotated[
    tuple[float, float],
    PlainValidator(_pair),
    PlainSerializer(_as_it_is),
    WithJsonSchema(_STEP | {"items": {"type": "number"}}),
]
Factor = Annotated[float, PlainValidator(_factor), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
Trace = Annotated[
    tuple[tuple[float, float], ...] | str,
    PlainValidator(_trace),
    PlainSerializer(_as_it_is),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": _STEP, "minItems": 1}]}),
]
"""Steps, or the name of a CSV file of them."""
