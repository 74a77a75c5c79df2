"""The rows that a function could have: every operator on every place that it fits, as text to be pasted.

Takes a file below `testbed/` and a function's qualified name; gives lines. Nothing is run, and nothing is written.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from mutating.descriptions import describe
from mutating.edits import with_change
from mutating.kinds import SYMBOLS
from mutating.operators import change
from mutating.parts import parts
from mutating.rows import ROOT, language_of, read_list
from mutating.scopes import Scope, Source
from mutating.stale import Stale

NEAREST = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is-not", "is-not": "is",
    "is-in": "not-in", "not-in": "is-in", "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "and": "or", "or": "and",
}  # fmt: skip
OPPOSITE = {"min": "max", "max": "min", "any": "all", "all": "any"}


def rows_of(file: str, where: str) -> Iterator[str]:
    """Each source line of the function that can be broken, as a comment, and the rows that break it."""
    path = ROOT / "testbed" / file
    if not path.is_file():
        raise Stale(f"there is no testbed/{file}")
    tests = _tests_of(file)
    if not file.endswith(".py"):
        for key, phrase in language_of(file).phrases(path.read_text(), where):
            yield f"  # {key}"
            yield row(file, where, phrase, tests)
        return
    source = Source(path.read_text())
    lines, told = source.text.splitlines(), 0
    for number, phrase in phrases(source.scope(where)):
        if number != told:
            yield f"  # {number}: {lines[number - 1].strip()}"
            told = number
        yield row(file, where, phrase, tests)


def row(file: str, where: str, phrase: str, tests: str) -> str:
    """As it stands in `mutations.toml`."""
    return f"  [{', '.join(map(quoted, (file, where, phrase, tests)))}],"


def quoted(text: str) -> str:
    """As a string of TOML in which nothing is escaped."""
    return f"'{text}'" if "'" not in text else f"'''{text}'''"


def phrases(scope: Scope) -> Iterator[tuple[int, str]]:
    """With the number of their line; of those that do the same, the first one."""
    seen = set[str]()
    for node in scope.nodes:
        for phrase in _of_node(node, scope):
            try:
                text = with_change(scope.source, change(phrase, scope))
            except Stale:
                continue
            if text not in seen:
                seen.add(text)
                yield getattr(scope.source.printed(node), "lineno", 0), phrase


def _of_node(node: ast.AST, scope: Scope) -> Iterator[str]:
    place = describe(node, scope)
    if place is None:
        return
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise | ast.Break | ast.Call):
        yield f"drop {place}"
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            condition = f"condition of {place}" if isinstance(node, ast.IfExp) else place
            yield from (f"set {condition} to False", f"set {condition} to True", f"negate {condition}")
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not())):
            yield from (f"set {place} to False", f"set {place} to True")
        case (
            ast.Compare(ops=[operator]) | ast.BinOp(op=operator) | ast.AugAssign(op=operator) | ast.BoolOp(op=operator)
        ):
            if (symbol := SYMBOLS[type(operator)]) in NEAREST:
                yield f"swap {place} with {NEAREST[symbol]}"
        case ast.Call(func=ast.Name(id=name)) if name in OPPOSITE:
            yield f"swap {place} with {OPPOSITE[name]}"
        case ast.Constant(value=bool(value)):
            yield f"set {place} to {not value}"
        case ast.Constant(value=int() | float()):
            yield f"scale {place} by 2"
    if isinstance(node, ast.expr):
        yield from _of_parts(node, str(place), scope)


def _of_parts(node: ast.expr, place: str, scope: Scope) -> Iterator[str]:
    parent = scope.source.parents[node]
    for name, _ in parts(node):
        match node:
            case ast.BinOp() | ast.IfExp() | ast.Call() if name not in ("object", "condition"):
                yield f"keep {name} of {place}"
            case ast.Tuple() if isinstance(parent, ast.Assign | ast.Return):
                pass  # without one of them nothing at all would run
            case ast.BoolOp() | ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                yield f"drop {name} of {place}"
    if (isinstance(parent, ast.comprehension) and node in parent.ifs) or isinstance(parent, ast.keyword):
        yield f"drop {place}"
    if isinstance(parent, ast.keyword | ast.BinOp) and not isinstance(node, ast.Constant):
        yield f"scale {place} by 1.3"


def _tests_of(file: str) -> str:
    """Those which most of this file's rows name."""
    known = Counter(each.tests for each in read_list() if each.file == file)
    return known.most_common(1)[0][0] if known else "tests/…"
