"""YAML text → marked values. Pure.

Built on the parser's events, not on its constructors: tags are never followed, scalars stay text, duplicate keys are
found, aliases cannot recurse or explode, and nesting is bounded before anything is built.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from testbed.errors import Finding, Findings, error, warning
from testbed.topologies.marked import MarkedList, MarkedMap, Value
from testbed.topologies.source import Rejected, Source
from testbed.units import shown

MAX_DEPTH = 24
MAX_VALUES = 8_000_000
"""More than the largest network needs, and less than would fill the memory."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_resolve = yaml.SafeLoader.yaml_implicit_resolvers
_NULLS = {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class Wording:
    """How messages refer to the document."""

    noun: str
    begin: str
    """How such a document begins."""


TOPOLOGY = Wording("a topology", "begin with `services:` and `links:`")


@dataclass
class _Open:
    """A map or list that is being filled."""

    value: MarkedMap | MarkedList
    anchor: str | None
    key: str | None = None
    key_at: int = 0
    duplicate: bool = False


class _Builder:
    def __init__(self, source: Source, findings: Findings, wording: Wording) -> None:
        self.wording = wording
        self.source = source
        self.findings = findings
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Value, int]] = {}
        self.values = 0
        self.section = ""
        self.root: Value = None

    def at(self, event: yaml.Event) -> int:
        return self.source.byte_offset(event.start_mark.index) if event.start_mark is not None else 0

    def stop(self, code: str, message: str, hint: str, event: yaml.Event) -> Rejected:
        return Rejected(error(code, message, hint, self.source.where(self.at(event))))

    def count(self, how_many: int, event: yaml.Event) -> None:
        self.values += how_many
        if self.values > MAX_VALUES:
            raise self.stop("too-large", f"more than {MAX_VALUES} values", "write less, or use fewer aliases", event)

    def add(self, value: Value, event: yaml.Event) -> None:
        """Adds a finished scalar, or a map or list that is about to be filled, to its parent."""
        at = self.at(event)
        if not self.stack:
            self.root = value
            return
        parent = self.stack[-1]
        if isinstance(parent.value, MarkedList):
            parent.value.put(value, at)
        elif parent.key is None:
            self.open_key(parent, value, event, at)
        else:
            if not parent.duplicate:
                parent.value.put(parent.key, value, parent.key_at, at)
            parent.key = None

    def open_key(self, parent: _Open, value: Value, event: yaml.Event, at: int) -> None:
        assert isinstance(parent.value, MarkedMap)  # noqa: S101 - lists have no keys
        if value is None:
            value = event.value if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(value, str):
            raise self.stop("bad-shape", "a key must be a simple text", "quote it if it is meant", event)
        if value == "<<" and isinstance(event, yaml.ScalarEvent) and not event.style:
            raise self.stop("merge-key", "merge keys (`<<`) are not part of the language", "use `defaults`", event)
        parent.duplicate = value in parent.value
        if parent.duplicate:
            first = self.source.where(parent.value.place(value)[0])
            self.findings.add(
                error(
                    "duplicate-key",
                    f"{shown(value)} is here twice; the first is in line {first.line}",
                    "remove one of the two",
                    self.source.where(at),
                )
            )
        parent.key, parent.key_at = value, at
        if len(self.stack) == 1:
            self.section = value

    def scalar(self, event: yaml.ScalarEvent) -> None:
        if event.tag not in (None, "!"):
            self.no_tags(event)
        plain = event.style is None or event.style == ""
        value: Value = None if plain and event.value in _NULLS else event.value
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1)
        if plain and self.is_trap(event.value):
            self.note_trap(event)
        self.add(value, event)

    def is_trap(self, text: str) -> bool:
        """Whether YAML 1.1 reads this unquoted text as something other than text (`no`, `010`, `12:30:00`)."""
        return any(pattern.match(text) for _tag, pattern in _resolve.get(text[:1], ()))

    def note_trap(self, event: yaml.ScalarEvent) -> None:
        """Warns of an unquoted key of `services` or item of `bridges` that other readers would not read as text."""
        is_name = self.section == "bridges" or (self.section == "services" and self.stack[-1].key is None)
        if len(self.stack) == 2 and is_name:
            self.findings.add(
                warning(
                    "yaml-trap",
                    f"other YAML readers do not take {shown(event.value)} for a text; here it is the name as written",
                    f'quote it: "{event.value}"',
                    self.source.where(self.at(event)),
                )
            )

    def no_tags(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        raise self.stop(
            "yaml-tag",
            f"tags are not part of the language: {shown(str(event.tag))}",
            "remove the tag",
            event,
        )

    def start(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag not in (None, "!"):
            self.no_tags(event)
        if len(self.stack) >= MAX_DEPTH:
            raise self.stop("too-deep", f"nested more than {MAX_DEPTH} deep", f"{self.wording.noun} is flat", event)
        at = self.at(event)
        value = MarkedMap(at) if isinstance(event, yaml.MappingStartEvent) else MarkedList(at)
        if self.stack and isinstance(self.stack[-1].value, MarkedMap) and self.stack[-1].key is None:
            raise self.stop("bad-shape", "a key must be a simple text", "quote it if it is meant", event)
        self.add(value, event)
        self.stack.append(_Open(value, event.anchor))
        if event.anchor is not None:
            self.anchors.pop(event.anchor, None)  # known only when complete, so that an alias cannot contain itself

    def end(self) -> None:
        done = self.stack.pop()
        if done.anchor is not None:
            self.anchors[done.anchor] = (done.value, _size(done.value))

    def alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise self.stop("yaml-alias", f"no complete value is called `*{event.anchor}`", "", event)
        value, size = self.anchors[event.anchor]
        self.count(size, event)
        self.add(value, event)


def _size(value: Value) -> int:
    """Number of values that an alias to this stands for, repetitions included."""
    if isinstance(value, MarkedMap):
        return 1 + sum(_size(item) for item in value.values())
    if isinstance(value, MarkedList):
        return 1 + sum(_size(item) for item in value)
    return 1


def read_yaml(source: Source, findings: Findings, wording: Wording = TOPOLOGY) -> MarkedMap:
    """The document's root; raises Rejected for text that cannot be read further."""
    builder = _Builder(source, findings, wording)
    documents = 0
    try:
        for event in yaml.parse(source.text, Loader=_Loader):
            if isinstance(event, yaml.ScalarEvent):
                builder.count(1, event)
                builder.scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                builder.count(1, event)
                builder.start(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                builder.end()
            elif isinstance(event, yaml.AliasEvent):
                builder.alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    hint = f"{wording.noun} is one YAML document: remove what follows `---`"
                    raise builder.stop("several-documents", "a second YAML document", hint, event)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        context = f" ({problem.context})" if problem.context else ""
        raise Rejected(
            error(
                "syntax",
                f"not YAML: {problem.problem}{context}",
                "check the indentation, colons and quotes around here",
                source.where(source.byte_offset(mark.index)) if mark else None,
            )
        ) from problem
    except yaml.YAMLError as problem:  # a character that YAML does not allow
        raise Rejected(_bad_character(source, problem)) from problem
    if builder.root is None:
        raise Rejected(error("empty", "the file holds nothing", wording.begin))
    if not isinstance(builder.root, MarkedMap):
        raise Rejected(error("bad-shape", f"{wording.noun} is a mapping", wording.begin))
    return builder.root


def _bad_character(source: Source, problem: yaml.YAMLError) -> Finding:
    code = getattr(problem, "character", 0)
    position = getattr(problem, "position", 0)  # libyaml counts bytes, its Python twin characters
    return error(
        "syntax",
        f"not YAML: the character U+{code if isinstance(code, int) else ord(code):04X} is not allowed",
        "remove it, or write it as an escape in double quotes",
        source.where(position if _Loader is not yaml.SafeLoader else source.byte_offset(position)),
    )
