"""`scripts/mutations` still breaks what it means to break; that the tests notice, it shows itself."""

from __future__ import annotations

import ast
import shlex
from itertools import groupby

import pytest

from mutating.edits import same
from mutating.rows import ROOT, Mutation, broken, read_list
from mutating.scopes import MODULE, Source

ROWS = read_list()
BY_GATE = {gate: list(rows) for gate, rows in groupby(ROWS, key=lambda row: row.gate)}


def text_of(row: Mutation) -> str:
    return (ROOT / "testbed" / row.file).read_text()


@pytest.mark.parametrize("gate", BY_GATE)
def test_every_row_breaks_one_thing_and_what_it_becomes_can_be_compiled(gate: str) -> None:
    for row in BY_GATE[gate]:
        text = broken(row, text_of(row))
        assert text != text_of(row)
        if row.file.endswith(".py"):
            compile(text, row.file, "exec", dont_inherit=True)
        for word in shlex.split(row.tests):
            assert not word.startswith("tests") or (ROOT / word).exists(), word


def test_nothing_is_listed_twice() -> None:
    listed = [(row.file, row.where, row.phrase) for row in ROWS]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("row", [row for row in ROWS if row.file.endswith(".py") and row.where != MODULE][::7], ids=str)
def test_other_names_of_variables_and_another_layout_leave_a_row_as_it_is(row: Mutation) -> None:
    """The same becomes of the same function when its local variables are called something else and laid out anew."""
    text = text_of(row)
    names = Source(text).scope(row.where).locals
    found = broken(row, renamed(text, row.where, names))
    assert same(ast.parse(found), ast.parse(renamed(broken(row, text), row.where, names)))


def renamed(text: str, where: str, names: set[str]) -> str:
    """All on as few lines as they need, without comments."""
    source = Source(text)
    definitions = source.definitions[where]
    for node in (node for definition in definitions for node in ast.walk(definition) if node not in definitions):
        for field in ("id", "arg", "name"):
            if getattr(node, field, None) in names and not isinstance(node, ast.keyword):
                setattr(node, field, getattr(node, field) + "_renamed")
    return ast.unparse(source.tree)
