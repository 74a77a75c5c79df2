"""Places in a function, named by structure: `if naming retries`, `argument 2 of call max`, `text "ms" in return`.

A place is steps from the inside to the outside. A step is a kind of node (`kinds`), and then as much as tells it from
others of its kind: its key, a word that stands in it (`naming …`), or its number among so many (`#2/3`). `of` leads
from a part to what has it, `in` to whatever it stands in. A place is found exactly once, or the row is stale.
"""

from __future__ import annotations

import ast
import json
import re
from typing import NamedTuple

from mutating.kinds import KINDS
from mutating.parts import PARTS, heading, parts
from mutating.scopes import Scope
from mutating.stale import Stale, no_such

RESERVED = {"of", "in", "to", "by", "with", "as", "over", "becomes", "naming"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_ORDINAL = re.compile(r"#(\d+)/(\d+)")


class Step(NamedTuple):
    kind: str
    key: str | None = None
    mention: str | None = None
    ordinal: tuple[int, int] | None = None

    def __str__(self) -> str:
        words = [self.kind]
        if self.key is not None:
            words.append(json.dumps(self.key, ensure_ascii=False) if self.kind == "text" else self.key)
        if self.mention:
            words += ["naming", self.mention]
        if self.ordinal:
            words.append("#{}/{}".format(*self.ordinal))
        return " ".join(words)


class Place(NamedTuple):
    """`steps[0]` is meant; `joints[n]` says whether `steps[n]` is a part `of` the step after it, or stands `in` it."""

    steps: tuple[Step, ...]
    joints: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = str(self.steps[0])
        for joint, step in zip(self.joints, self.steps[1:], strict=True):
            said += f" {joint} {step}"
        return said

    @property
    def outer(self) -> Place:
        """What the innermost step is found in."""
        return Place(self.steps[1:], self.joints[1:])

    @property
    def weight(self) -> int:
        """The less, the better it survives changes: numbers among others are the last resort."""
        cost = 10 * len(self.steps)
        for step in self.steps:
            cost += 3 * (step.key is not None) + 4 * (step.mention is not None)
            cost += 5 * (step.kind == "literal")  # rather by what it is to others than by its value
            cost += 16 + 3 * step.ordinal[1] if step.ordinal else 0
        return cost


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def split_at(text: str, word: str) -> tuple[str, str]:
    """What stands before and after the first such word that is not part of a text."""
    for match in _TOKEN.finditer(text):
        if match[0] == word:
            return text[: match.start()].strip(), text[match.end() :].strip()
    raise Stale(f"`{text}`: `{word}` is missing")


def parse_place(words: list[str]) -> Place:
    """The whole of `words`."""
    steps, joints = list[Step](), list[str]()
    rest = list(words)
    while True:
        steps.append(_parse_step(rest))
        if not rest:
            return Place(tuple(steps), tuple(joints))
        if (joint := rest.pop(0)) not in ("of", "in"):
            raise Stale(f"`{' '.join(words)}` names no place: {joint} was not expected")
        joints.append(joint)


def _parse_step(rest: list[str]) -> Step:
    if not rest:
        raise Stale("a place is missing")
    kind = rest.pop(0)
    if kind not in KINDS and kind not in PARTS:
        raise no_such("kind of place", kind, {*KINDS, *PARTS})
    key = mention = ordinal = None
    if rest and rest[0] not in RESERVED and not _ORDINAL.fullmatch(rest[0]):
        key = rest.pop(0)
        if kind == "text":
            try:
                key = json.loads(key)
            except ValueError:
                raise Stale(f'a text stands in double quotes, as in `text "ms"`, not {key}') from None
    if rest[:1] == ["naming"]:
        mention = rest[1] if len(rest) > 1 else ""
        del rest[:2]
    if rest and (match := _ORDINAL.fullmatch(rest[0])):
        ordinal = int(match[1]), int(match[2])
        del rest[0]
    return Step(kind, key, mention, ordinal)


def find(place: Place, scope: Scope) -> ast.AST:
    """The one node that is meant."""
    step = place.steps[0]
    if place.joints and place.joints[0] == "of":
        return _part(step, find(place.outer, scope))
    within = list(scope.nodes)
    if place.joints:
        within_it = inside(find(place.outer, scope))
        within = [node for node in within if node in within_it]
    found = [node for node in within if is_meant(node, step, scope)]
    if step.ordinal:
        number, count = step.ordinal
        if len(found) != count or not 1 <= number <= count:
            raise Stale(f"`{step}`: there are {len(found)} now")
        return found[number - 1]
    if len(found) != 1:
        there = {key for node in within for key in KINDS[step.kind](node, scope) or ()} if step.kind in KINDS else set()
        if not found and step.key is not None and there:
            raise no_such(step.kind, step.key, there)
        raise Stale(f"`{step}` stands there {len(found)} times")
    return found[0]


def is_meant(node: ast.AST, step: Step, scope: Scope) -> bool:
    if step.kind not in KINDS:
        raise Stale(f"`{step}` is a part: `{step} of …`")
    keys = KINDS[step.kind](node, scope)
    if keys is None:
        return False
    if step.kind == "text" and step.key is not None:
        return keys[0].count(step.key) == 1
    if step.key is not None and step.key not in keys:
        return False
    return step.mention is None or any(step.mention in scope.words(each) for each in heading(node))


def inside(node: ast.AST) -> set[ast.AST]:
    return set(ast.walk(node)) - {node}


def _part(step: Step, whole: ast.AST) -> ast.AST:
    name = step.kind if step.key is None else f"{step.kind} {step.key}"
    there = dict(parts(whole))
    if name not in there:
        raise no_such("part", name, there)
    return there[name]
