"""Marked values → typed entries of the language, and findings for invalid ones. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from testbed.errors import Findings, Where, error
from testbed.topologies.language import Entry, Problem, check_name
from testbed.topologies.marked import MarkedList, MarkedMap, Value
from testbed.topologies.source import Source
from testbed.units import format_rate, shown

_Entry = TypeVar("_Entry", bound=Entry)
_SHAPES = {"model_type": "a mapping", "dict_type": "a mapping", "tuple_type": "a list"}
_QUOTED = re.compile(r"'([^']*)'")


class Report:
    """Collects the findings of one file by offset."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings

    def where(self, at: int) -> Where:
        return self.source.where(at)

    def error(self, code: str, message: str, hint: str, at: int) -> None:
        self.findings.add(error(code, message, hint, self.where(at)))

    def name(self, name: str, at: int) -> bool:
        """Whether a service or bridge may have this name; a finding if not."""
        try:
            check_name(name)
        except Problem as problem:
            self.error(problem.code, problem.message, problem.hint, at)
            return False
        return True

    def too_busy(self, entry: MarkedMap, background_bps: float | None, rate_bps: float | None) -> bool:
        """Whether background traffic fills the rate given with it; a finding if so."""
        if background_bps is None or rate_bps is None or background_bps < rate_bps:
            return False
        message = f"background traffic of {format_rate(background_bps)} fills a link of {format_rate(rate_bps)}"
        self.error("background", message, "make it less than the rate", entry.place("background")[1])
        return True

    def entry(self, kind: type[_Entry], value: Value, at: int, label: str) -> _Entry | None:
        """The value as an entry of the language, or None with findings at the exact places."""
        if not isinstance(value, MarkedMap):
            self.error("bad-shape", f"{label} is a mapping of keys to values", "write {key: value, …}", at)
            return None
        complete = self._without_blanks(value)
        try:
            entry = kind.model_validate(complete, by_alias=True, by_name=False)
        except ValidationError as problems:
            for problem in problems.errors(include_url=False):
                self._explain(kind, value, label, problem)
            return None
        return entry if len(complete) == len(value) else None

    def _without_blanks(self, entry: MarkedMap) -> dict[str, Value | dict[str, Any]]:
        """Reports keys without a value, which are mistakes rather than omissions."""
        kept: dict[str, Value | dict[str, Any]] = {}
        for key, value in entry.items():
            if value is None:
                self.error(
                    "empty-value",
                    f"{entry.spelled(key)} has no value",
                    "give one, or remove the key",
                    entry.place(key)[1],
                )
            else:
                kept[key] = self._without_blanks(value) if isinstance(value, MarkedMap) else value
        return kept

    def suggest_key(self, key: str, known: list[str], at: int) -> str:  # noqa: ARG002 - for those that know more
        """A hint for an unknown key, given the known ones."""
        return self.findings.suggest(key, known)

    def _explain(self, kind: type[Entry], entry: MarkedMap, label: str, problem: Any) -> None:
        location: tuple[str | int, ...] = problem["loc"]
        holder, word, at = find_place(entry, location)
        what = problem["type"]
        prefix = f"{word}: " if word else ""
        if what == "missing" and isinstance(location[-1], str):
            name = holder.spelled(location[-1]) if isinstance(holder, MarkedMap) else location[-1]
            self.error("missing", f"{label} needs `{name}`", f"add `{name}`", at)
        elif what == "missing" or what == "too_long":
            self.error("bad-shape", f"{prefix}exactly two ends are expected", "write [one end, other end]", at)
        elif what == "extra_forbidden":
            model = _kind_at(kind, location[:-1])
            key = str(location[-1])
            holder, _, at = find_place(entry, location[:-1])
            keys: Mapping[str, object] = holder if isinstance(holder, MarkedMap) else {}
            key_at = holder.place(key)[0] if isinstance(holder, MarkedMap) else at
            hint = self.suggest_key(key, model.known_keys(keys), key_at)
            self.error("unknown-key", f"{model.called or label} has no key {shown(key)}", hint, key_at)
        elif what == "value_error":
            refused: Problem = problem["ctx"]["error"]
            self.error(refused.code, prefix + refused.message, refused.hint, at)
        elif what in ("enum", "literal_error"):
            known = _QUOTED.findall(problem["ctx"]["expected"])
            given = str(problem["input"])
            self.error(
                "bad-value", f"{prefix}{shown(given)} is not known here", self.findings.suggest(given, known), at
            )
        elif what == "string_too_short":
            self.error("bad-value", f"{prefix}this must not be empty", "give one, or remove the key", at)
        elif what == "too_short":
            self.error("bad-value", f"{prefix}at least two groups are needed", "write [[one], [other]]", at)
        elif what in _SHAPES:
            self.error("bad-shape", f"{prefix}{_SHAPES[what]} is expected here", "", at)
        else:
            self.error("bad-value", prefix + str(problem["msg"])[:1].lower() + str(problem["msg"])[1:], "", at)


def _kind_at(kind: type[Entry], location: tuple[str | int, ...]) -> type[Entry]:
    """The innermost kind of entry that holds a place."""
    for part in location:
        field = next((field for name, field in kind.model_fields.items() if part in (name, field.alias)), None)
        kind = (field and _entry_in(field.annotation)) or kind
    return kind


def _entry_in(annotation: object) -> type[Entry] | None:
    """The kind of entry in an annotation such as `tuple[Kind, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Entry):
        return annotation
    return next((found for part in get_args(annotation) if (found := _entry_in(part))), None)


def find_place(entry: MarkedMap, location: tuple[str | int, ...]) -> tuple[MarkedMap | MarkedList, str, int]:
    """The innermost map or list that holds the place, the source's word for it, and its offset."""
    holder: MarkedMap | MarkedList = entry
    word, at = "", entry.at
    for part in location:
        value: Value = None
        if isinstance(holder, MarkedMap) and isinstance(part, int):
            continue  # one entry where a list of them may stand
        if isinstance(holder, MarkedMap) and isinstance(part, str) and part in holder:
            word, at, value = holder.spelled(part), holder.place(part)[1], holder[part]
        elif isinstance(holder, MarkedList) and isinstance(part, int) and part < len(holder):
            at, value = holder.item_at[part], holder[part]
        if not isinstance(value, MarkedMap | MarkedList):
            break
        holder = value
    return holder, word, at
