"""The full names of all keys of an experiment, such as `training.lr`, for suggestions.

Takes a word, gives full keys; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import get_args

from testbed.experiment.choices import Choice, Section
from testbed.experiment.language import Experiment

_MOST = 3


def full_keys(word: str) -> list[str]:
    """A few keys of any section with this name."""
    return [key for key in _inner_keys() if key.rpartition(".")[2] == word][:_MOST]


@cache
def _inner_keys() -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in _keys(Experiment, "") if "." in key))


def _keys(kind: type[Section], before: str) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        key = f"{before}{field.alias or name}"
        inner = _section_in(field.annotation)
        if inner is None:
            yield key
        else:
            yield from _keys(inner, f"{key}.")
    if issubclass(kind, Choice):
        for options in kind.built_in.values():
            yield from (f"{before}{name}" for name in options.model_fields)


def _section_in(annotation: object) -> type[Section] | None:
    """The section class of an annotation; None for a list of sections, whose entries have no names."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, Section) else None
    found = [part for part in get_args(annotation) if isinstance(part, type) and issubclass(part, Section)]
    return found[0] if found else None
