"""A helper that several test files need stands in one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
LEAST_NODES = 14
"""Of a body's syntax: what is smaller is shorter than the import of what would be shared."""


def helpers(text: str) -> Iterator[tuple[str, str]]:
    """Names and bodies of a module's functions, but for tests; without what is said about them."""
    for each in ast.parse(text).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.name.startswith("test_"):
            body = each.body[1:] if ast.get_docstring(each) else each.body
            if sum(1 for statement in body for _ in ast.walk(statement)) >= LEAST_NODES:
                yield each.name, "\n".join(map(ast.dump, body))


def test_no_helper_stands_in_two_files() -> None:
    places = defaultdict(set)
    for file in sorted(TESTS.rglob("*.py")):
        for name, body in helpers(file.read_text()):
            places[body].add(f"{file.relative_to(TESTS)}: {name}")
    assert [sorted(each) for each in places.values() if len(each) > 1] == []


def test_a_copy_is_one_whatever_it_is_called_and_said_to_be() -> None:
    body = "    x = 1\n    y = [z for z in range(x)]\n    return x + sum(y)\n"
    (one,), (other,) = (list(helpers(f"def {name}():\n{said}{body}")) for name, said in (("a", ""), ("b", '    "b"\n')))
    assert one[1] == other[1]
    assert list(helpers("def a():\n    return 1\n")) == list(helpers(f"def test_a():\n{body}")) == []
