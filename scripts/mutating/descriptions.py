"""What to call a node: all places that find it, and nothing else, and the simplest of them.

Takes a node of a scope, gives places; `listing` prints them, and the author of a row chooses one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutating.kinds import KINDS
from mutating.parts import heading, parts
from mutating.places import RESERVED, Place, Step, inside, is_meant
from mutating.scopes import Scope


def describe(node: ast.AST, scope: Scope) -> Place | None:
    """The simplest name that finds this node and nothing else; some can only be named by the statement they are in."""
    return min(descriptions(node, scope), key=lambda place: place.weight, default=None)


def descriptions(node: ast.AST, scope: Scope, *, deep: int = 2) -> Iterator[Place]:
    """All of its names that are worth a thought."""
    for kind, keys_of in KINDS.items():
        keys = keys_of(node, scope)
        if keys is None:
            continue
        for step in _steps(kind, keys, node, scope):
            yield from _placed(step, node, scope, deep)
    whole = next((each for each in scope.source.above(node) if any(part is node for _, part in parts(each))), None)
    if whole is not None and deep:
        names = [name for name, part in parts(whole) if part is node]
        holders = [whole, *(each for each in scope.source.above(whole) if any(part is node for _, part in parts(each)))]
        for holder in holders:
            if holder in scope.nodes:
                kind, _, key = names[0].partition(" ")
                for outer in descriptions(holder, scope, deep=deep - 1):
                    yield Place((Step(kind, key or None), *outer.steps), ("of", *outer.joints))


def _steps(kind: str, keys: list[str], node: ast.AST, scope: Scope) -> Iterator[Step]:
    yield Step(kind)
    for key in keys:
        if kind == "text" or (key not in RESERVED and " " not in key and not key.startswith("#")):
            yield Step(kind, key)
    if kind != "text":
        words = {word for each in heading(node) for word in scope.words(each)} - set(keys) - RESERVED
        yield from (Step(kind, None, word) for word in sorted(words))


def _placed(step: Step, node: ast.AST, scope: Scope, deep: int) -> Iterator[Place]:
    found = [each for each in scope.nodes if is_meant(each, step, scope)]
    if len(found) == 1:
        yield Place((step,))
        return
    if step.mention is None:
        yield Place((step._replace(ordinal=(found.index(node) + 1, len(found))),))
    if not deep or step.mention is not None:
        return
    for outside in scope.source.above(node):
        if outside not in scope.nodes:
            return
        within = inside(outside)
        if sum(each in within for each in found) == 1:
            for outer in descriptions(outside, scope, deep=0):
                yield Place((step, *outer.steps), ("in", *outer.joints))
