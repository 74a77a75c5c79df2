"""The kinds of nodes that a row can name, such as `if`, `call send` or `literal 0.5`.

A kind gives, for a node of its own, the keys that the node answers to: names that others know as well, operators and
literals, and never the name of a local variable.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from mutating.parts import expression_of
from mutating.scopes import Scope

Keys = list[str] | None
"""None: of another kind. An empty list: of this kind, and without a name."""

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "is-in", ast.NotIn: "not-in", ast.Is: "is", ast.IsNot: "is-not",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.And: "and", ast.Or: "or",
}  # fmt: skip


def _name(node: ast.AST | None, scope: Scope) -> list[str]:
    match node:
        case ast.Attribute(attr=name):
            return [name]
        case ast.Name(id=name) if scope.is_stable(name):
            return [name]
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.Call(func=value) | ast.Await(value=value):
            return _name(value, scope)
        case ast.Tuple(elts=elements):
            return [name for each in elements for name in _name(each, scope)]
    return []


def _call(node: ast.AST, scope: Scope) -> Keys:
    return _name(node.func, scope) if isinstance(node, ast.Call) else None


def _assignment(node: ast.AST, scope: Scope) -> Keys:
    match node:
        case ast.Assign(targets=targets):
            return [name for target in targets for name in _name(target, scope)]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _name(target, scope)
    return None


def _value(node: ast.AST, scope: Scope) -> Keys:
    """What is assigned to a name, also where several are assigned at once."""
    parent = scope.source.parents[node]
    match parent:
        case ast.Assign(targets=targets, value=value) if value is node and not isinstance(value, ast.Tuple):
            return [name for target in targets for name in _name(target, scope)]
        case ast.AnnAssign(target=target, value=value) if value is node:
            return _name(target, scope)
        case ast.Tuple(elts=elements):
            match scope.source.parents[parent]:
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if value is parent:
                    pairs = zip(names, elements, strict=False)  # as many, unless one of them is starred
                    return next((_name(name, scope) for name, each in pairs if each is node), None)
    return None


def _keyword(node: ast.AST, scope: Scope) -> Keys:
    """An argument that is given by name."""
    parent = scope.source.parents[node]
    return [parent.arg] if isinstance(parent, ast.keyword) and parent.arg else None


def _symbol(*types: type[ast.AST]) -> Callable[[ast.AST, Scope], Keys]:
    def keys(node: ast.AST, _: Scope) -> Keys:
        if not isinstance(node, types) or isinstance(getattr(node, "op", None), ast.Not):
            return None
        operators = node.ops if isinstance(node, ast.Compare) else [getattr(node, "op")]  # noqa: B009
        return [SYMBOLS[type(each)] for each in operators]

    return keys


def _tuple(node: ast.AST, _: Scope) -> Keys:
    """One that is read, and not one of names that are assigned to."""
    return [] if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) else None


def _plain(*types: type[ast.AST]) -> Callable[[ast.AST, Scope], Keys]:
    return lambda node, _: [] if isinstance(node, types) else None


def _with_operator(type_: type[ast.AST]) -> Callable[[ast.AST, Scope], Keys]:
    return lambda node, _: [] if isinstance(getattr(node, "op", None), type_) else None


def _headed(*types: type[ast.AST]) -> Callable[[ast.AST, Scope], Keys]:
    """Named by what its header is or calls: `with suppress(…)`, `except OSError`, `raise InvalidInput(…)`."""

    def keys(node: ast.AST, scope: Scope) -> Keys:
        return _name(expression_of(node), scope) if isinstance(node, types) else None

    return keys


def _literal(node: ast.AST, scope: Scope) -> Keys:
    """A number, a truth value or `None`."""
    is_literal = isinstance(node, ast.Constant) and isinstance(node.value, int | float | None)
    return [ast.unparse(node)] if is_literal and not _is_annotation(node, scope) else None


def _text(node: ast.AST, _: Scope) -> Keys:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return [node.value if isinstance(node.value, str) else node.value.decode("latin-1")]
    return None


def _used(type_: type[ast.AST]) -> Callable[[ast.AST, Scope], Keys]:
    """A name or an attribute, where it is read and not called."""

    def keys(node: ast.AST, scope: Scope) -> Keys:
        if not isinstance(node, type_) or not isinstance(getattr(node, "ctx", None), ast.Load):
            return None
        return _name(node, scope) or None

    return keys


def _is_annotation(node: ast.AST, scope: Scope) -> bool:
    parent = scope.source.parents[node]
    return isinstance(parent, ast.arg) or node in (getattr(parent, "annotation", 0), getattr(parent, "returns", 0))


def _default(node: ast.AST, scope: Scope) -> Keys:
    """Of an argument of the function."""
    parent = scope.source.parents[node]
    return [] if isinstance(parent, ast.arguments) and not isinstance(node, ast.arg) else None


def _case(node: ast.AST, scope: Scope) -> Keys:
    """Named by the class that it is a case of."""
    if not isinstance(node, ast.match_case):
        return None
    return sorted(scope.words(node.pattern))


def _filter(node: ast.AST, scope: Scope) -> Keys:
    parent = scope.source.parents[node]
    return [] if isinstance(parent, ast.comprehension) and node in parent.ifs else None


KINDS: dict[str, Callable[[ast.AST, Scope], Keys]] = {
    "if": _plain(ast.If),
    "while": _plain(ast.While),
    "for": _plain(ast.For, ast.AsyncFor),
    "with": _headed(ast.With, ast.AsyncWith),
    "return": _plain(ast.Return),
    "raise": _headed(ast.Raise),
    "yield": _plain(ast.Yield),
    "break": _plain(ast.Break),
    "except": _headed(ast.ExceptHandler),
    "assignment": _assignment,
    "value": _value,
    "call": _call,
    "argument": _keyword,
    "comparison": _symbol(ast.Compare),
    "operation": _symbol(ast.BinOp, ast.AugAssign, ast.UnaryOp),
    "and": _with_operator(ast.And),
    "or": _with_operator(ast.Or),
    "not": _with_operator(ast.Not),
    "choice": _plain(ast.IfExp),
    "comprehension": _plain(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "filter": _filter,
    "lambda": _plain(ast.Lambda),
    "literal": _literal,
    "default": _default,
    "case": _case,
    "text": _text,
    "list": _plain(ast.List),
    "tuple": _tuple,
    "dict": _plain(ast.Dict),
    "set": _plain(ast.Set),
    "subscript": _plain(ast.Subscript),
    "await": _plain(ast.Await),
    "name": _used(ast.Name),
    "attribute": _used(ast.Attribute),
}
