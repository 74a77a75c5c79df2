"""The ways to break a function, one each: what a row says, and what becomes of the place that it names.

Every operator takes a scope and the words after its name, and gives the change of one node; it touches nothing. A row
is one phrase, such as `drop call close`, `set if naming retries to False` or `scale value LIMIT_S by 2`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TypeVar

from mutating.edits import Change
from mutating.kinds import SYMBOLS
from mutating.parts import expression_of, parts
from mutating.places import Place, find, parse_place, split_at, tokens
from mutating.removals import without
from mutating.scopes import Scope
from mutating.stale import Stale, no_such

HOLE = "_"
"""In an expression after `becomes`: what stands there now; with the name of a part behind it, that part."""
_Operator = TypeVar("_Operator", ast.cmpop, ast.boolop, ast.operator)


def drop(scope: Scope, said: str) -> Change:
    """`drop PLACE`: a statement becomes `pass`; an operand, an element, an argument or a condition is left out."""
    node = find(parse_place(tokens(said)), scope)
    if (statement := _statement(node, scope)) is not None:
        return Change(statement, ast.Pass())
    if (change := without(node, scope.source)) is not None:
        return change
    raise Stale(f"`{said}` is not what can be left out")


def negate(scope: Scope, said: str) -> Change:
    """`negate PLACE`: a condition becomes its contrary."""
    node = _expression(said, scope)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Change(node, node.operand)
    return Change(node, ast.UnaryOp(ast.Not(), node))


def set_(scope: Scope, said: str) -> Change:
    """`set PLACE to LITERAL`: a condition becomes `False`, a constant another one."""
    place, literal = split_at(said, "to")
    node = _expression(place, scope)
    new = _parsed(literal)
    try:
        ast.literal_eval(new)
    except ValueError:
        raise Stale(f"`{literal}` is no literal: `{place} becomes {literal}`") from None
    return Change(node, new)


def scale(scope: Scope, said: str) -> Change:
    """`scale PLACE by NUMBER`: a quantity is so many times as large."""
    place, number = split_at(said, "by")
    node, factor = _expression(place, scope), _parsed(number)
    if not isinstance(factor, ast.Constant) or not isinstance(factor.value, int | float):
        raise Stale(f"{number} is no number")
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Change(node, ast.Constant(node.value * factor.value))
    return Change(node, ast.BinOp(factor, ast.Mult(), node))


def swap(scope: Scope, said: str) -> Change:
    """`swap PLACE with WORD`: another operator (`>=`, `or`, `-`), or another name that is called or read."""
    place, word = split_at(said, "with")
    node = find(parse_place(tokens(place)), scope)
    if not isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp | ast.AugAssign):
        node = expression_of(node) or node
    match node:
        case ast.Compare(left=left, comparators=comparators, ops=[_]):
            return Change(node, ast.Compare(left, [_operator(word, ast.cmpop)], comparators))
        case ast.BoolOp(values=values):
            return Change(node, ast.BoolOp(_operator(word, ast.boolop), values))
        case ast.BinOp(left=left, right=right):
            return Change(node, ast.BinOp(left, _operator(word, ast.operator), right))
        case ast.AugAssign(target=target, value=value):
            return Change(node, ast.AugAssign(target, _operator(word, ast.operator), value))
        case ast.Call(func=func):
            return Change(func, _renamed(func, word, scope))
        case ast.Name() | ast.Attribute():
            return Change(node, _renamed(node, word, scope))
    raise Stale(f"`{place}` has neither an operator nor a name to swap")


def keep(scope: Scope, said: str) -> Change:
    """`keep PART of PLACE`: the place becomes one of its own parts, such as a call one of its arguments."""
    place = parse_place(tokens(said))
    if not place.joints:
        raise Stale(f"`{said}`: of what?")
    part = find(place, scope)
    whole = expression_of(find(place.outer, scope))
    if whole is None or not isinstance(part, ast.expr):
        raise Stale(f"`{said}` is no expression")
    return Change(whole, part)


def copy(scope: Scope, said: str) -> Change:
    """`copy PLACE over PLACE`: the second becomes what the first is, also where that is a local variable."""
    taken, place = split_at(said, "over")
    return Change(_expression(place, scope), _expression(taken, scope))


def respell(scope: Scope, said: str) -> Change:
    """`respell text "…" as "…"`: so much of a text is written otherwise."""
    said_place, spelled = split_at(said, "as")
    place: Place = parse_place(tokens(said_place))
    node, new, old = find(place, scope), ast.literal_eval(_parsed(spelled)), place.steps[0].key
    if not isinstance(node, ast.Constant) or old is None or not isinstance(new, str):
        raise Stale(f'`{said}`: say `respell text "old" as "new"`')
    if isinstance(node.value, bytes):
        return Change(node, ast.Constant(node.value.replace(old.encode("latin-1"), new.encode("latin-1"))))
    return Change(node, ast.Constant(str(node.value).replace(old, new)))


def add(scope: Scope, said: str) -> Change:
    """`add import MODULE`: before the first import of the module."""
    if not said.startswith("import "):
        raise Stale(f"`add {said}`: only an import can be added")
    imports = (each for each in scope.nodes if isinstance(each, ast.Import | ast.ImportFrom))
    first = next((each for each in imports if getattr(each, "module", "") != "__future__"), None)
    if first is None:
        raise Stale("there is no import before which to add one")
    return Change(first, ast.Module([ast.parse(said).body[0], first], []))


def becomes(scope: Scope, said: str) -> Change:
    """`PLACE becomes EXPRESSION`, for the few that need one. It names no local variables: `_` is what stands there now,
    and `_left`, `_argument_1` and so on are its parts."""
    place, expression = split_at(said, "becomes")
    node, new = _expression(place, scope), _parsed(expression)
    holes = {HOLE: node, **{HOLE + name.replace(" ", "_"): part for name, part in parts(node)}}
    for name in {each.id for each in ast.walk(new) if isinstance(each, ast.Name)} - _bound_within(new) - set(holes):
        _check_known(name, scope)
    return Change(node, _Filled(holes).visit(new))


class _Filled(ast.NodeTransformer):
    """Every hole becomes the node that it stands for."""

    def __init__(self, holes: dict[str, ast.AST]) -> None:
        self._holes = holes

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._holes.get(node.id, node)


OPERATORS: dict[str, Callable[[Scope, str], Change]] = {
    "drop": drop,
    "negate": negate,
    "set": set_,
    "scale": scale,
    "swap": swap,
    "keep": keep,
    "copy": copy,
    "respell": respell,
    "add": add,
}


def change(phrase: str, scope: Scope) -> Change:
    """What a row's phrase makes of the scope."""
    verb, _, rest = phrase.partition(" ")
    if "becomes" in tokens(phrase):
        return becomes(scope, phrase)
    if verb not in OPERATORS:
        raise no_such("operator", verb, {*OPERATORS, "becomes"})
    return OPERATORS[verb](scope, rest)


def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError:
        raise Stale(f"`{expression}` is no expression") from None


def _expression(said: str, scope: Scope) -> ast.expr:
    found = expression_of(find(parse_place(tokens(said)), scope))
    if not isinstance(found, ast.expr):
        raise Stale(f"`{said}` is no expression and has none")
    return found


def _statement(node: ast.AST, scope: Scope) -> ast.stmt | None:
    """The statement that a node is, or that consists of nothing else."""
    parent = scope.source.parents[node]
    if isinstance(parent, ast.Await):
        return _statement(parent, scope)
    if isinstance(parent, ast.Expr):
        return parent
    return node if isinstance(node, ast.stmt) else None


def _operator(symbol: str, of: type[_Operator]) -> _Operator:
    found = [each for each, spelled in SYMBOLS.items() if spelled == symbol and issubclass(each, of)]
    if not found:
        raise no_such("operator", symbol, SYMBOLS.values())
    return found[0]()


def _renamed(node: ast.AST, name: str, scope: Scope) -> ast.expr:
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, name, node.ctx)
    _check_known(name, scope)
    return ast.Name(name, ast.Load())


def _check_known(name: str, scope: Scope) -> None:
    """Refuses unknown names, which would make any test fail, and local variables, whose names may change."""
    if name == "self" or hasattr(builtins, name):
        return
    if not scope.is_stable(name):
        raise Stale(f"{name} is a local variable: use `{HOLE}`, or `copy`")
    known = {each.id for each in ast.walk(scope.source.tree) if isinstance(each, ast.Name)}
    known |= {each.asname or each.name.partition(".")[0] for each in _imports(scope)} | set(scope.source.definitions)
    if name not in known:
        raise no_such("name in this file called", name, known)


def _imports(scope: Scope) -> list[ast.alias]:
    return [each for each in ast.walk(scope.source.tree) if isinstance(each, ast.alias)]


def _bound_within(expression: ast.expr) -> set[str]:
    """By lambdas and comprehensions of the expression itself."""
    arguments = {each.arg for each in ast.walk(expression) if isinstance(each, ast.arg)}
    names = [each for each in ast.walk(expression) if isinstance(each, ast.Name)]
    return arguments | {each.id for each in names if isinstance(each.ctx, ast.Store)}
