"""The list of mutations: what is broken where, and which tests must notice."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from mutating import c_text, templates
from mutating.edits import with_change
from mutating.operators import change
from mutating.scopes import Source

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "scripts" / "mutations.toml"
C = (".c", ".h")


class Mutation(NamedTuple):
    """In `file` below `testbed/`, the function, class or section `where` is broken as `phrase` says."""

    gate: str
    file: str
    where: str
    phrase: str
    tests: str

    def __str__(self) -> str:
        return f"{self.gate} | {self.file} | {self.where}: {self.phrase}"


def read_list() -> list[Mutation]:
    listed = tomllib.loads(LIST.read_text())
    return [Mutation(gate, *row) for gate, rows in listed.items() for row in rows]


def broken(mutation: Mutation, text: str) -> str:
    """The text of the file once the mutation is made; `Stale` if it does not say one thing of it."""
    if not mutation.file.endswith(".py"):
        changed: str = language_of(mutation.file).broken(text, mutation.where, mutation.phrase)
        return changed
    source = _source(text)
    return with_change(source, change(mutation.phrase, source.scope(mutation.where)))


def language_of(file: str) -> ModuleType:
    """How files are changed that are not Python's."""
    return c_text if file.endswith(C) else templates


@lru_cache(maxsize=16)
def _source(text: str) -> Source:
    return Source(text)
