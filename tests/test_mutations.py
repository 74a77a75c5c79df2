"""`scripts/mutations` still breaks what it means to break; that the tests notice, it shows itself."""

from __future__ import annotations

import ast
import shlex
import tomllib
from pathlib import Path

import pytest

import testbed

PACKAGE = Path(testbed.__file__).parent
ROOT = PACKAGE.parent
LIST = ROOT / "scripts" / "mutations.toml"
GATES: dict[str, list[list[str]]] = tomllib.loads(LIST.read_text())


@pytest.mark.parametrize("gate", GATES)
def test_every_text_is_found_once_and_what_it_becomes_can_be_read(gate: str) -> None:
    for file, before, after, tests in GATES[gate]:
        text = (PACKAGE / file).read_text()
        assert text.count(before) == 1, f"{file} holds `{before}` {text.count(before)} times"
        assert before != after
        if file.endswith(".py"):
            ast.parse(text.replace(before, after))
        for word in shlex.split(tests):
            assert not word.startswith("tests") or (ROOT / word).exists(), word


def test_nothing_is_listed_twice() -> None:
    listed = [(file, before, after) for rows in GATES.values() for file, before, after, _ in rows]
    assert len(listed) == len(set(listed))
