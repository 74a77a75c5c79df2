"""One node of a file becomes another: the text around it stays as it is, byte by byte.

The new text is read again and compared with the tree that was meant, so a change that cannot be written is an error.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from mutating.scopes import Source
from mutating.stale import Stale

_ATOMS = ast.Name | ast.Constant | ast.Attribute | ast.Call | ast.Subscript | ast.JoinedStr


class Change(NamedTuple):
    """`old` stands in the tree; `new` may hold nodes of it. A module as `new` is all of its statements."""

    old: ast.AST
    new: ast.AST


def with_change(source: Source, change: Change) -> str:
    """The text of the file with the change."""
    if same(change.old, change.new):
        raise Stale("this changes nothing")
    old = next(each for each in (change.old, *source.above(change.old)) if _has_place(each, source))
    try:
        text = _put(source.text, old, _written(_changed(old, change, source), old))
        is_meant = same(ast.parse(text), _changed(source.tree, change, source))
    except (SyntaxError, ValueError) as problem:  # such as a number where an f-string has its text
        raise Stale(f"this cannot be written: {problem}") from None
    if not is_meant:
        raise Stale("this cannot be written where it would stand")
    return text


def _changed(root: ast.AST, change: Change, source: Source) -> ast.AST:
    """`root` with the change in it; what lies beside is shared."""
    old, new = change
    while old is not root:
        parent = source.parents[old]
        fields = {name: _with_child(value, old, new) for name, value in ast.iter_fields(parent)}
        old, new = parent, type(parent)(**fields)
    return new


def _with_child(value: object, old: ast.AST, new: ast.AST) -> object:
    if not isinstance(value, list):
        return new if value is old else value
    instead = new.body if isinstance(new, ast.Module) else [new]
    return [kept for each in value for kept in (instead if each is old else [each])]


def same(one: object, other: object) -> bool:
    """Two trees say the same, wherever they stand."""
    if isinstance(one, ast.AST):
        return type(one) is type(other) and all(
            same(getattr(one, name, None), getattr(other, name, None)) for name in one._fields
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def _has_place(node: ast.AST, source: Source) -> bool:
    return isinstance(node, ast.expr | ast.stmt) and source.printed(node) is node


def _written(node: ast.AST, instead: ast.AST) -> str:
    if isinstance(node, ast.expr):
        text = ast.unparse(node)
        is_safe = isinstance(node, _ATOMS) and not isinstance(instead, ast.GeneratorExp)
        is_bare = isinstance(node, ast.Starred | ast.Slice)
        return text if is_safe or is_bare else f"({text})"
    indent = " " * getattr(instead, "col_offset", 0)
    return ast.unparse(node).replace("\n", f"\n{indent}")


def _put(text: str, old: ast.AST, new: str) -> str:
    data, lines = text.encode(), [0]
    for line in data.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    assert isinstance(old, ast.expr | ast.stmt)
    assert old.end_lineno is not None
    assert old.end_col_offset is not None
    start, end = lines[old.lineno - 1] + old.col_offset, lines[old.end_lineno - 1] + old.end_col_offset
    return (data[:start] + new.encode() + data[end:]).decode()
