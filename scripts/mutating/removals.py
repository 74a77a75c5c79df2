"""What is left of a node when one of its parts is left out: for `drop`, wherever the language allows less."""

from __future__ import annotations

import ast
from typing import TypeVar

from mutating.edits import Change
from mutating.scopes import Source

_Node = TypeVar("_Node")


def without(node: ast.AST, source: Source) -> Change | None:
    """The change of what `node` is part of; None where it cannot be left out."""
    parent = source.parents[node]
    if isinstance(parent, ast.keyword):
        node, parent = parent, source.parents[parent]
    match parent:
        case ast.BoolOp(op=operator, values=values):
            rest = _rest(values, node)
            return Change(parent, rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest))
        case ast.Tuple(elts=elements, ctx=context) | ast.List(elts=elements, ctx=context):
            return Change(parent, type(parent)(_rest(elements, node), context))
        case ast.Set(elts=elements):
            return Change(parent, ast.Set(_rest(elements, node)))
        case ast.Dict(keys=keys, values=values):
            number = values.index(node) if node in values else keys.index(node)  # type: ignore[arg-type]
            return Change(parent, ast.Dict(_but(keys, number), _but(values, number)))
        case ast.Call(func=func, args=arguments, keywords=keywords) if node is not func:
            return Change(parent, ast.Call(func, _rest(arguments, node), _rest(keywords, node)))
        case ast.comprehension(target=target, iter=iterable, ifs=filters, is_async=is_async) if node in filters:
            return Change(parent, ast.comprehension(target, iterable, _rest(filters, node), is_async))
        case ast.Compare(left=left, ops=ops, comparators=[*between, last]) if between and node is last:
            return Change(parent, ast.Compare(left, ops[:-1], between))
        case ast.Compare(left=left, ops=ops, comparators=[first, *others]) if others and node is left:
            return Change(parent, ast.Compare(first, ops[1:], others))
        case ast.Slice(lower=lower, upper=upper, step=step):
            return Change(parent, ast.Slice(*(None if each is node else each for each in (lower, upper, step))))
    return None


def _rest(nodes: list[_Node], node: ast.AST) -> list[_Node]:
    return [each for each in nodes if each is not node]


def _but(nodes: list[_Node], number: int) -> list[_Node]:
    return nodes[:number] + nodes[number + 1 :]
