"""What a node consists of, each part by its name, and the one expression that a statement is about.

Parts are what follows `of` in a place: `argument 2 of call max`, `left of comparison >`, `then of return`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

PARTS = {
    "object", "argument", "left", "right", "operand", "element", "condition", "then", "else", "iterable", "index",
    "start", "stop", "result",
}  # fmt: skip
_HEADERS: dict[type[ast.AST], str] = {
    ast.If: "test", ast.While: "test", ast.For: "iter", ast.AsyncFor: "iter", ast.Match: "subject",
    ast.Return: "value", ast.Expr: "value", ast.Assign: "value", ast.AugAssign: "value", ast.AnnAssign: "value",
    ast.Raise: "exc", ast.Assert: "test", ast.ExceptHandler: "type", ast.keyword: "value", ast.Yield: "value",
}  # fmt: skip


def expression_of(node: ast.AST) -> ast.AST | None:
    """What an operator on expressions breaks: a statement's condition or value, or the expression itself."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return node.items[0].context_expr
    if type(node) in _HEADERS:
        found = getattr(node, _HEADERS[type(node)])
        return found if isinstance(found, ast.AST) else None
    return node if isinstance(node, ast.expr) else None


def heading(node: ast.AST) -> list[ast.AST]:
    """What tells a node from others of its kind: for a statement with a body only what stands before the colon."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return list(node.items)
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        expression = expression_of(node)
        return [] if expression is None else [expression]
    return [node]


def parts(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node consists of, each part by its name; of a statement, what its condition or value consists of."""
    expression = expression_of(node)
    if isinstance(node, ast.stmt | ast.ExceptHandler) and expression is not None:
        node = expression
    match node:
        case ast.Call(func=func, args=arguments, keywords=keywords):
            if isinstance(func, ast.Attribute):
                yield "object", func.value
            yield from ((f"argument {number}", each) for number, each in enumerate(arguments, 1))
            yield from ((f"argument {each.arg}", each.value) for each in keywords if each.arg)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[*_, right]):
            yield "left", left
            yield "right", right
        case ast.UnaryOp(operand=operand) | ast.Starred(value=operand) | ast.Await(value=operand):
            yield "operand", operand
        case ast.BoolOp(values=operands):
            yield from ((f"operand {number}", each) for number, each in enumerate(operands, 1))
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            yield from ((f"element {number}", each) for number, each in enumerate(elements, 1))
        case ast.Dict(values=values):
            yield from ((f"element {number}", each) for number, each in enumerate(values, 1))
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            yield from (("condition", test), ("then", body), ("else", otherwise))
        case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
            yield "element", element
            yield "iterable", node.generators[0].iter
        case ast.DictComp(value=value):
            yield "element", value
            yield "iterable", node.generators[0].iter
        case ast.Subscript(value=value, slice=index):
            yield "object", value
            yield "index", index
        case ast.Slice(lower=lower, upper=upper):
            yield from (("start", lower),) if lower else ()
            yield from (("stop", upper),) if upper else ()
        case ast.Attribute(value=value):
            yield "object", value
        case ast.NamedExpr(value=value) | ast.Lambda(body=value):
            yield "result", value
