"""XML text → a plain tree of elements with their offsets. Pure.

Document types, and with them entities of any kind, are refused; nesting is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from testbed.errors import Findings, Where, error, note, warning
from testbed.topologies.source import Rejected, Source
from testbed.units import shown

MAX_DEPTH = 8
MAX_VALUES = 3_000_000
"""Elements and attributes."""
_ATTRIBUTE = re.compile(rb"""\s*([^\s=<>"'/]+)\s*=\s*("[^"]*"|'[^']*')""")


@dataclass(slots=True)
class Element:
    """A tag with its attributes; `at` is the offset of its `<`."""

    tag: str
    attributes: dict[str, str]
    at: int
    children: list[Element] = field(default_factory=list)
    places: dict[str, tuple[int, int]] | None = None
    """Offsets of its attributes; found on demand."""


def attribute_place(source: Source, element: Element, attribute: str) -> tuple[int, int]:
    """Offsets of an attribute and its value in a start tag; the tag's own offset for a missing attribute."""
    if element.places is None:
        element.places = {}
        position = element.at + 1 + len(element.tag.encode())
        while (match := _ATTRIBUTE.match(source.data, position)) is not None:
            element.places[match[1].decode()] = (match.start(1), match.start(2) + 1)
            position = match.end()
    return element.places.get(attribute, (element.at, element.at))


class _Parser:
    """Expat, refusing everything that this language does not use."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings
        self.values = 0
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.expat = expat.ParserCreate()
        self.expat.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.text
        self.expat.CommentHandler = self.before_root
        self.expat.ProcessingInstructionHandler = lambda _target, _data: self.before_root("")
        self.expat.StartDoctypeDeclHandler = self.doctype

    def here(self) -> Where:
        return self.source.where(self.expat.CurrentByteIndex)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise Rejected(error("too-deep", f"nested more than {MAX_DEPTH} deep", "a topology is flat", self.here()))
        self.values += 1 + len(attributes)
        if self.values > MAX_VALUES:
            raise Rejected(error("too-large", f"more than {MAX_VALUES} values", "use `replicas`", self.here()))
        element = Element(tag, attributes, self.expat.CurrentByteIndex)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def end(self, _tag: str) -> None:
        self.stack.pop()

    def text(self, text: str) -> None:
        if text.strip():
            self.findings.add(
                warning(
                    "unexpected-text",
                    f"text between elements, which means nothing: {shown(text.strip())}",
                    "remove it, or what it was to say; Kollaps passes over it as well",
                    self.here(),
                )
            )

    def before_root(self, _text: str) -> None:
        if self.root is None:
            self.findings.add(
                note(
                    "kollaps-prolog",
                    "something stands before <experiment>: Kollaps' emulation core then finds no topology and exits",
                    "move the comment inside <experiment>",
                    self.here(),
                )
            )

    def doctype(self, *_declaration: object) -> None:
        at = max(0, self.source.data.rfind(b"<!DOCTYPE", 0, self.expat.CurrentByteIndex + len("<!DOCTYPE")))
        message = "document types and entities are not allowed"
        raise Rejected(error("doctype", message, "remove the <!DOCTYPE …>", self.source.where(at)))

    def parse(self) -> Element:
        try:
            self.expat.Parse(self.source.text, True)
        except expat.ExpatError as problem:
            where = self.source.where(min(self.expat.ErrorByteIndex, len(self.source.data)))
            words = expat.errors.messages.get(problem.code, "syntax error")
            hint = "check that every tag is closed and every attribute quoted"
            if problem.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS] and not self.source.text.strip():
                raise Rejected(error("empty", "the file holds nothing", "begin with <experiment>")) from problem
            raise Rejected(error("syntax", f"not XML: {words}", hint, where)) from problem
        assert self.root is not None  # noqa: S101 - expat refuses a document without a root
        return self.root


def parse_tree(source: Source, findings: Findings) -> Element:
    """The root element; raises Rejected for text that is not XML."""
    return _Parser(source, findings).parse()
