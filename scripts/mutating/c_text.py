"""Mutations of C: a row names a function, and a text in it that becomes another one, or nothing.

A phrase is `drop TEXT` or `TEXT becomes TEXT`. The text occurs once in the function; how it is broken into lines does
not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mutating.stale import Stale, no_such

_FUNCTION = re.compile(r"^\w[^\n;={}]*?\b(?P<name>\w+)\([^;{}]*\)\n\{\n.*?^\}$", re.MULTILINE | re.DOTALL)


def broken(text: str, where: str, phrase: str) -> str:
    """The source with one place of one function changed; nothing else is."""
    function = _function(text, where)
    old, new = _read(phrase)
    found = list(_anyhow(old).finditer(function[0]))
    if len(found) != 1:
        raise Stale(f"{where} has {len(found)} times `{old}`")
    start = function.start() + found[0].start()
    if old == new:
        raise Stale("this changes nothing")
    return text[:start] + new + text[start + len(found[0][0]) :]


def phrases(text: str, where: str) -> Iterator[tuple[str, str]]:
    """The statements of a function, each with what could become of it."""
    lines = [line.strip() for line in _function(text, where)[0].splitlines()]
    for line in lines:
        if line.endswith(";") and lines.count(line) == 1:
            yield line, f"drop {line}"


def _function(text: str, where: str) -> re.Match[str]:
    functions = {match["name"]: match for match in _FUNCTION.finditer(text)}
    if where not in functions:
        raise no_such("function", where, functions)
    return functions[where]


def _read(phrase: str) -> tuple[str, str]:
    if match := re.fullmatch(r"drop (.+)", phrase):
        return match[1], ""
    if match := re.fullmatch(r"(.+?) becomes (.+)", phrase):
        return match[1], match[2]
    raise Stale(f"`{phrase}` is none of `drop TEXT`, `TEXT becomes TEXT`")


def _anyhow(text: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, text.split())))
