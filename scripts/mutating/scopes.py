"""The part of a file that a row names: a function, a class, or what stands outside of all of them.

Takes the text of a file and gives a `Scope`: its nodes in the order of the text, and which of its names are local.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from mutating.stale import no_such

MODULE = "<module>"
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
_SELF = {"self", "cls"}


class Source:
    """The text of a file, its tree, and its definitions by qualified name."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {
            child: parent for parent in ast.walk(self.tree) for child in children(parent)
        }
        self.definitions: dict[str, list[_Definition]] = {}
        for name, definition in _definitions(self.tree, ""):
            self.definitions.setdefault(name, []).append(definition)

    def scope(self, name: str) -> Scope:
        """The definitions of that name; a property and its setter are one scope."""
        if name == MODULE:
            return Scope(self, [self.tree])
        if name not in self.definitions:
            raise no_such("function or class", name, {*self.definitions, MODULE})
        return Scope(self, list(self.definitions[name]))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What `node` stands in, from the inside to the outside."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def printed(self, node: ast.AST) -> ast.AST:
        """The node whose place in the text is known: parts of an f-string have none of their own."""
        strings = [each for each in self.above(node) if isinstance(each, ast.JoinedStr)]
        return strings[-1] if strings else node


class Scope:
    """What a row's function, class or module consists of; methods are no part of their class, nor are docstrings."""

    def __init__(self, source: Source, roots: list[_Definition] | list[ast.Module]) -> None:
        self.source, self.roots = source, roots

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """In the order of the text; what has no position stands where its first part does."""
        found = [node for root in self.roots for node in self._within(root)]
        order = {node: number for number, node in enumerate(found)}
        return sorted(found, key=lambda node: (self._position(node), order[node]))

    @cached_property
    def locals(self) -> set[str]:
        """The function's local names, which may be renamed without breaking a row."""
        names = set[str]()
        for root in self.roots:
            if isinstance(root, ast.FunctionDef | ast.AsyncFunctionDef):
                outer = [each for each in self.source.above(root) if isinstance(each, ast.FunctionDef)]
                names.update(*(_bound(function) for function in [root, *outer]))
            else:
                names.update(*(_bound_in_expression(node) for node in self._within(root)))
        return names - _SELF

    def is_stable(self, name: str) -> bool:
        return name not in self.locals and name not in _SELF

    def words(self, node: ast.AST) -> set[str]:
        """Names in `node` that others know as well: attributes, arguments by keyword, and what is no local variable."""
        found = set[str]()
        for each in ast.walk(node):
            match each:
                case ast.Attribute(attr=name):
                    found.add(name)
                case ast.keyword(arg=str(name)):
                    found.add(name)
                case ast.Name(id=name) if self.is_stable(name):
                    found.add(name)
        return found

    def _within(self, root: ast.AST) -> Iterator[ast.AST]:
        is_function = isinstance(root, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in children(root):
            if not is_docstring(child, root) and (is_function or not isinstance(child, _DEFINITION)):
                yield from _deep(child) if is_function else self._shallow(child)

    def _shallow(self, node: ast.AST) -> Iterator[ast.AST]:
        yield node
        for child in children(node):
            if not isinstance(child, _DEFINITION):
                yield from self._shallow(child)

    def _position(self, node: ast.AST) -> tuple[int, int]:
        printed = self.source.printed(node)
        first = next((each for each in _deep(printed) if hasattr(each, "lineno")), None)
        if isinstance(printed, ast.expr | ast.stmt):
            first = printed
        return (first.lineno, first.col_offset) if isinstance(first, ast.expr | ast.stmt) else _anywhere(first)


def _anywhere(node: ast.AST | None) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Without operators and contexts, of which Python makes one node for the whole tree."""
    return (each for each in ast.iter_child_nodes(node) if not isinstance(each, _SHARED))


def is_docstring(node: ast.AST, parent: ast.AST) -> bool:
    return (
        isinstance(parent, ast.Module | _Definition)
        and parent.body[0] is node
        and isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _deep(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in children(node):
        if not is_docstring(child, node):
            yield from _deep(child)


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Definition]]:
    for child in children(node):
        if isinstance(child, _DEFINITION):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from _definitions(child, prefix)


def _bound(function: ast.AST) -> set[str]:
    shared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
    names = set[str]()
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=str(name)):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if node is not function:
                names.add(name)
    return names - shared


def _bound_in_expression(node: ast.AST) -> set[str]:
    """Of a lambda or a comprehension outside of functions."""
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return _bound(node)
    return set()
