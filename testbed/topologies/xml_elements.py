"""XML elements → marked maps with the language's keys; base of all parts of the XML reader. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set

from testbed.errors import Findings, Where, error, note
from testbed.topologies.marked import MarkedMap
from testbed.topologies.model import DEFAULT_BOOT, DEFAULT_IMAGE, DEFAULT_NETWORK
from testbed.topologies.source import Source
from testbed.topologies.xml_tree import Element, attribute_place
from testbed.units import UnitError, format_number, parse_rate_bps, shown

LINK = {
    "origin": "from",
    "dest": "to",
    "latency": "latency",
    "upload": "up",
    "download": "down",
    "jitter": "jitter",
    "drop": "loss",
    "network": "network",
}
"""The attributes of a link, and their keys in the language."""
_CHILD = {"services": "service", "bridges": "bridge", "links": "link", "dynamic": "schedule"}
_EXAMPLES = {"boot": DEFAULT_BOOT, "image": DEFAULT_IMAGE, "network": DEFAULT_NETWORK}
_NEVER_BLANK = {"name", "image", "boot", "network"}
_WITH_UNIT = re.compile(r"[0-9.]+[a-z]+")
_BARE_NUMBER = re.compile(r"[+-]?([0-9]{1,18}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?")
_COUNT = re.compile(r"\+?[0-9]{1,18}")
_KOLLAPS_RATE = re.compile(r"0*[1-9][0-9]*[KMG]bps")
_BARE_UNITS = {"latency": "ms", "jitter": "ms", "time": "s", "pool_period": "s", "drop": ""}
_COUNTS = {"replicas", "amount", "port", "max_age"}


class _Attributes(MarkedMap):
    """A marked map of an element's attributes, whose offsets are found on demand."""

    def __init__(self, source: Source, element: Element, vocabulary: Mapping[str, str]) -> None:
        super().__init__(element.at)
        self._source = source
        self._element = element
        self._vocabulary = vocabulary

    def spelled(self, key: str, otherwise: str | None = None) -> str:
        words = (attribute for attribute, meant in self._vocabulary.items() if meant == key)
        return next(words, otherwise or key)

    def place(self, key: str) -> tuple[int, int]:
        return attribute_place(self._source, self._element, self.spelled(key))


class ElementReader:
    """Reads elements, and reports unknown elements and attributes."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings

    def where(self, element: Element, attribute: str | None = None) -> Where:
        """The element, or the value of one of its attributes."""
        at = element.at if attribute is None else attribute_place(self.source, element, attribute)[1]
        return self.source.where(at)

    def note(self, code: str, message: str, hint: str, element: Element, attribute: str | None = None) -> None:
        self.findings.add(note(f"kollaps-{code}", message, hint, self.where(element, attribute)))

    def attributes(self, element: Element, vocabulary: Mapping[str, str], ignored: Set[str] = frozenset()) -> MarkedMap:
        """The element's attributes with the language's keys; a bare number gets Kollaps' unit."""
        marked = _Attributes(self.source, element, vocabulary)
        for attribute, value in element.attributes.items():
            key = vocabulary.get(attribute)
            if key is None:
                if attribute not in ignored:
                    self.unknown_attribute(element, attribute, [*vocabulary, *ignored])
                continue
            unit = _BARE_UNITS.get(attribute)
            if unit is not None and _BARE_NUMBER.fullmatch(value.strip()):
                value = format_number(round(float(value), 12) + 0.0) + unit
            elif attribute in _COUNTS and _COUNT.fullmatch(value.strip()):
                value = str(int(value))
            elif unit is not None and _WITH_UNIT.fullmatch(value):
                self.note(
                    "unit", f"{attribute}: Kollaps takes a plain number here", "leave the unit out", element, attribute
                )
            if value.strip() or attribute not in _NEVER_BLANK:
                marked[key] = value
        return marked

    def unknown_attribute(self, element: Element, attribute: str, known: list[str]) -> None:
        at = self.source.where(attribute_place(self.source, element, attribute)[0])
        message = f"<{element.tag}> has no attribute {shown(attribute)}"
        self.findings.add(error("unknown-attribute", message, self.findings.suggest(attribute, known), at))

    def unknown_element(self, element: Element, known: Iterable[str]) -> None:
        message = f"unknown element <{element.tag}>"
        self.findings.add(
            error("unknown-element", message, self.findings.suggest(element.tag, known), self.where(element))
        )

    def children(self, section: Element) -> Iterator[Element]:
        wanted = _CHILD.get(section.tag)  # None: the section is missing, and <experiment> stands in for its place
        for child in section.children if wanted is not None else ():
            if child.tag != wanted:
                self.unknown_element(child, [str(wanted)])
            else:
                self.leaf(child)
                yield child

    def leaf(self, element: Element) -> None:
        for child in element.children:
            self.findings.add(
                error("unknown-element", f"<{element.tag}> holds no elements", "remove it", self.where(child))
            )

    def require(self, element: Element, *attributes: str) -> bool:
        """Whether the element has these attributes; keys that the language requires are left to the builder."""
        missing = [attribute for attribute in attributes if not element.attributes.get(attribute, "").strip()]
        for attribute in missing:
            message = f"<{element.tag}> needs the attribute `{attribute}`"
            example = _EXAMPLES.get(attribute, "…")
            self.findings.add(error("missing", message, f'add {attribute}="{example}"', self.where(element)))
        return not missing

    def lexis(self, element: Element) -> None:
        """Notes values that our language accepts and Kollaps does not."""
        for attribute in ("upload", "download"):
            rate = element.attributes.get(attribute)
            if rate is not None and not _KOLLAPS_RATE.fullmatch(rate) and _is_rate(rate):
                self.note(
                    "rate",
                    f"{attribute}: Kollaps reads only whole numbers with Kbps, Mbps or Gbps; {shown(rate)} stops its "
                    "generator, and its emulation core takes it for another rate",
                    "write a whole number of Kbps, Mbps or Gbps",
                    element,
                    attribute,
                )
        if "%" in element.attributes.get("drop", ""):
            self.note("unit", "drop: Kollaps takes a fraction here, not a percentage", "", element, "drop")


def _is_rate(text: str) -> bool:
    try:
        parse_rate_bps(text)
    except UnitError:
        return False
    return True
