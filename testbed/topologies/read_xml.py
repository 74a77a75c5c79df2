"""XML text in Kollaps 2.0's language → the same marked values that YAML gives. Pure.

Document types, and with them entities of any kind, are refused; nesting is bounded. The element and attribute
tables below are the whole of the XML vocabulary. Where Kollaps' two parsers disagree with each other or with
common sense, the meaning here is fixed and a note (codes `kollaps-…`) says what Kollaps would do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Set

from testbed.errors import Findings, Where, error, note, warning
from testbed.topologies.marked import MarkedList, MarkedMap, Value
from testbed.topologies.model import DEFAULT_BOOT, DEFAULT_IMAGE, DEFAULT_NETWORK
from testbed.topologies.read_yaml import read_yaml
from testbed.topologies.source import Rejected, Source
from testbed.topologies.xml_tree import Element, attribute_place, parse_tree
from testbed.units import UnitError, format_number, parse_rate_bps, shown

_SECTIONS = ("config", "services", "bridges", "links", "dynamic")
_CHILD = {"services": "service", "bridges": "bridge", "links": "link", "dynamic": "schedule"}

_SERVICE = {name: name for name in ("image", "command", "replicas", "reuse", "supervisor", "port")}
_SERVICE["activepaths"] = "active-paths"
_BAREMETAL = {"ip", "machinename", "kollaps_folder", "topology_file", "controllername", "script", "controller_ip"}
_CONFIG = {"shortest_path": "routing", "pool_period": "pool-period", "max_age": "max-age", "name": "name"}
_LINK = {
    "origin": "from",
    "dest": "to",
    "latency": "latency",
    "upload": "up",
    "download": "down",
    "jitter": "jitter",
    "drop": "loss",
    "network": "network",
}
_EXAMPLES = {"boot": DEFAULT_BOOT, "image": DEFAULT_IMAGE, "network": DEFAULT_NETWORK}
_NEVER_BLANK = {"name", "image", "boot", "network"}
_NODE_EVENT = {"name": "node", "time": "at", "action": "do", "amount": "count"}
_BRIDGE_EVENT = {"name": "bridge", "time": "at", "action": "state"}
_LINK_EVENT = {"time": "at", "action": "state"} | {key: _LINK[key] for key in _LINK if key not in ("origin", "dest")}
_STATES = {"join": "up", "leave": "down"}

_ROUTING = {"hop": "hops", "latency": "latency"}
_WITH_UNIT = re.compile(r"[0-9.]+[a-z]+")
_BARE_NUMBER = re.compile(r"[+-]?([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?")
_COUNT = re.compile(r"\+?[0-9]{1,18}")
_KOLLAPS_RATE = re.compile(r"0*[1-9][0-9]*[KMG]bps")
_BARE_UNITS = {"latency": "ms", "jitter": "ms", "time": "s", "pool_period": "s", "drop": ""}
_COUNTS = {"replicas", "amount", "port", "max_age"}


class _Attributes(MarkedMap):
    """A marked map over an element's attributes; looks for their offsets only when somebody asks."""

    def __init__(self, source: Source, element: Element, vocabulary: Mapping[str, str]) -> None:
        super().__init__(element.at)
        self._source = source
        self._element = element
        self._vocabulary = vocabulary

    def spelled(self, key: str) -> str:
        return next((attribute for attribute, meant in self._vocabulary.items() if meant == key), key)

    def place(self, key: str) -> tuple[int, int]:
        return attribute_place(self._source, self._element, self.spelled(key))


class _Reader:
    """Maps elements onto the language's keys."""

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
        """The element's attributes under the language's keys; a bare number gets the unit that Kollaps means."""
        marked = _Attributes(self.source, element, vocabulary)
        for attribute, value in element.attributes.items():
            key = vocabulary.get(attribute)
            if key is None:
                if attribute not in ignored:
                    self.unknown_attribute(element, attribute, [*vocabulary, *ignored])
                continue
            unit = _BARE_UNITS.get(attribute)
            if unit is not None and _BARE_NUMBER.fullmatch(value.strip()):
                value = format_number(float(value)) + unit
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
        """Whether the element has them all; what the language itself requires is left to the builder."""
        missing = [attribute for attribute in attributes if not element.attributes.get(attribute, "").strip()]
        for attribute in missing:
            message = f"<{element.tag}> needs the attribute `{attribute}`"
            example = _EXAMPLES.get(attribute, "…")
            self.findings.add(error("missing", message, f'add {attribute}="{example}"', self.where(element)))
        return not missing

    def read(self, root: Element) -> MarkedMap:
        if root.tag != "experiment":
            hint = "a topology begins with <experiment boot=…>"
            raise Rejected(error("root", f"the root element is <{root.tag}>", hint, self.where(root)))
        kollaps = MarkedMap(root.at)
        for key, value in self.attributes(root, {"boot": "boot"}).items():
            kollaps.put(key, value, *attribute_place(self.source, root, key))
        self.require(root, "boot")
        sections = self.sections(root)
        document = MarkedMap(root.at)
        document.put("kollaps", kollaps, root.at, root.at)
        for child in sections["config"].children if "config" in sections else ():
            self.config(child, document, kollaps)
        services = self.services(sections.get("services", root))
        document["services"] = services
        document["bridges"] = bridges = self.bridges(sections.get("bridges", root))
        document["links"] = self.links(sections.get("links", root), sections.get("services", root))
        self.joins_count(sections.get("dynamic", root), services)
        targets = {*services, *(str(name) for name in bridges)}
        document["events"] = self.events(sections.get("dynamic", root), {str(name) for name in bridges}, targets)
        return document

    def sections(self, root: Element) -> dict[str, Element]:
        found: dict[str, Element] = {}
        for child in root.children:
            if child.tag not in _SECTIONS:
                self.unknown_element(child, _SECTIONS)
            elif child.tag in found:
                self.findings.add(
                    error(
                        "duplicate-key", f"a second <{child.tag}>", "put everything into the first", self.where(child)
                    )
                )
            else:
                found[child.tag] = child
                for attribute in child.attributes:
                    self.unknown_attribute(child, attribute, [])
        if "links" not in found:  # that there are no services is for the builder to say
            self.findings.add(error("missing", "<experiment> needs <links>", "add <links>", self.where(root)))
        return found

    def config(self, child: Element, document: MarkedMap, kollaps: MarkedMap) -> None:
        """Kollaps reads these attributes from children of any name."""
        self.leaf(child)
        entry = self.attributes(child, _CONFIG)
        if "name" in entry:
            document.put("name", entry["name"], *entry.place("name"))
        routing = entry.get("routing")
        if routing is not None and routing not in _ROUTING:
            message = f"shortest_path: {shown(str(routing))} is neither hop nor latency (Kollaps would find no paths)"
            at = self.where(child, "shortest_path")
            self.findings.add(error("bad-value", message, 'write shortest_path="hop" or "latency"', at))
        elif routing is not None:
            if document.get("routing", _ROUTING[str(routing)]) != _ROUTING[str(routing)]:
                at = self.where(child, "shortest_path")
                self.findings.add(error("duplicate-key", "shortest_path is said twice, differently", "keep one", at))
            document.put("routing", _ROUTING[str(routing)], *entry.place("routing"))
        for key in ("pool-period", "max-age"):
            if key in entry:
                kollaps.put(key, entry[key], *entry.place(key), word=entry.spelled(key))

    def services(self, section: Element) -> MarkedMap:
        services = MarkedMap(section.at)
        for element in self.children(section):
            vocabulary = _SERVICE | {"name": "name", "share": "share"}
            entry = self.attributes(element, vocabulary, frozenset(_BAREMETAL))
            self.require(element, "name", "image")
            name = str(entry.pop("name", ""))
            if not name:
                continue
            if name in services:
                self.findings.add(
                    error(
                        "duplicate-name",
                        f"a second service {shown(name)} (Kollaps would add its replicas to the first)",
                        "rename one, or raise `replicas`",
                        self.where(element, "name"),
                    )
                )
                continue
            self.service(element, entry)
            services.put(name, entry, element.at, element.at)
        return services

    def joins_count(self, section: Element, services: MarkedMap) -> None:
        """Like Kollaps: a service that joins has as many replicas as its joins need, whatever its attribute says."""
        joining = {
            event.attributes.get("name") for event in section.children if event.attributes.get("action") == "join"
        }
        for name, entry in services.items():
            replicas = entry.get("replicas") if name in joining and isinstance(entry, MarkedMap) else None
            if not isinstance(entry, MarkedMap) or not isinstance(replicas, str) or replicas.lstrip("0") == "":
                continue  # a bad value stays, for the builder to report
            if replicas.isdecimal():
                where = self.source.where(entry.place("replicas")[1])
                del entry["replicas"]
                message = f"`replicas` of {shown(name)} has no effect: its joins say how many there are (as in Kollaps)"
                self.findings.add(note("kollaps-replicas", message, "remove the attribute", where))

    def service(self, element: Element, entry: MarkedMap) -> None:
        share = entry.pop("share", "false")
        if share not in ("true", "false"):
            self.findings.add(
                error(
                    "bad-value",
                    f"share: {shown(str(share))} is neither true nor false",
                    "",
                    self.where(element, "share"),
                )
            )
        if "supervisor" in entry and entry["supervisor"] != "true":
            self.note(
                "supervisor",
                "Kollaps takes any `supervisor` attribute, even this one, for the dashboard",
                "remove the attribute from services that are not the dashboard",
                element,
                "supervisor",
            )
        if "port" in entry and entry.get("supervisor") != "true":
            self.note("port", "`port` has a meaning for the supervisor only", "remove it", element, "port")
        for attribute in sorted(_BAREMETAL & element.attributes.keys()):
            self.findings.add(
                warning("baremetal", f"`{attribute}` is for bare metal and has no effect here", "", self.where(element))
            )
        if "command" in entry:
            command = self.word_list(element, "command", split=True)
            entry.pop("command") if command is None else entry.update(command=command)
        if "active-paths" in entry:
            if " " in element.attributes["activepaths"]:
                self.note("active-paths", "a blank in `activepaths` makes Kollaps panic", "", element, "activepaths")
            paths = self.word_list(element, "activepaths", split=False)
            entry.pop("active-paths") if paths is None else entry.update({"active-paths": paths})

    def word_list(self, element: Element, attribute: str, *, split: bool) -> Value:
        """`['a','b']` as Kollaps writes lists; a plain text is split as a shell would."""
        text = element.attributes[attribute].strip()
        words = MarkedList(element.at)
        if not text:
            return words
        try:
            if not text.startswith("["):
                if split:
                    self.note(
                        "command",
                        "a command that is not a list: Kubernetes would refuse Kollaps' manifest",
                        "write it as ['first','second']",
                        element,
                        attribute,
                    )
                for word in shlex.split(text) if split else [text]:
                    words.put(word, element.at)
                return words
            doubts = Findings()
            listed = read_yaml(Source("", f"list: {text}"), doubts)
            parsed = listed.get("list") if not doubts.all() and len(listed) == 1 else None
        except (Rejected, ValueError):
            parsed = None
        if not isinstance(parsed, MarkedList) or not all(isinstance(word, str) for word in parsed):
            self.findings.add(
                error(
                    "bad-value",
                    f"{attribute}: {shown(text)} is not a list of words",
                    "write ['first','second']",
                    self.where(element, attribute),
                )
            )
            return None
        for item in parsed:
            words.put(item, element.at)
        return words

    def bridges(self, section: Element) -> MarkedList:
        bridges = MarkedList(section.at)
        for element in self.children(section):
            entry = self.attributes(element, {"name": "name"})
            if self.require(element, "name"):
                bridges.put(entry["name"], element.at)
        return bridges

    def links(self, section: Element, services: Element) -> MarkedList:
        shared = {
            element.attributes.get("name") for element in services.children if element.attributes.get("share") == "true"
        }
        links = MarkedList(section.at)
        for element in self.children(section):
            entry = self.attributes(element, _LINK)
            self.require(element, "network")
            self.lexis(element)
            if "down" not in entry:
                entry["one-way"] = "true"
                self.note(
                    "one-way",
                    "without `download` this link is one-way (so does Kollaps' emulation core; its dashboard does not)",
                    "give `download` for a two-way link",
                    element,
                )
            sides = (entry.get("from") in shared, entry.get("to") in shared)
            entry["shared"] = {(True, True): "both", (True, False): "from", (False, True): "to"}.get(sides, "false")
            links.put(entry, element.at)
        return links

    def lexis(self, element: Element) -> None:
        """What our language accepts in a value and Kollaps does not."""
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

    def events(self, section: Element, bridges: Set[str], targets: Set[str]) -> MarkedList:
        events = MarkedList(section.at)
        latest = 0.0
        for element in self.children(section):
            name = element.attributes.get("name")
            if name is None and element.attributes.keys() & {"origin", "dest"}:
                if not self.require(element, "origin", "dest"):
                    continue
                entry = self.link_event(element)
            elif name in bridges:
                entry = self.stateful(element, _BRIDGE_EVENT)
            elif name in targets:
                entry = self.attributes(element, _NODE_EVENT)
                entry.setdefault("count", "1")
            else:
                self.no_target(element, name, targets)
                continue
            if "node" not in entry:
                latest = self.ordered(element, latest)
            events.put(entry, element.at)
        return events

    def no_target(self, element: Element, name: str | None, targets: Set[str]) -> None:
        if name is None:
            hint = "give `name` for a service or bridge, or `origin` and `dest` for a link"
            self.findings.add(error("missing", "<schedule> names nothing", hint, self.where(element)))
        else:
            message = f"name: no service or bridge is called {shown(name)} (Kollaps would ignore the event)"
            at = self.where(element, "name")
            self.findings.add(error("unknown-name", message, self.findings.suggest(name, targets), at))

    def ordered(self, element: Element, latest: float) -> float:
        try:
            time = float(element.attributes.get("time", ""))
        except ValueError:
            return latest
        if time < latest:
            self.note(
                "event-order",
                "out of order: Kollaps gives a link or bridge event the state of the events written before it",
                "sort events by time (here they are applied in the order of their times)",
                element,
                "time",
            )
        return max(time, latest)

    def stateful(self, element: Element, vocabulary: Mapping[str, str]) -> MarkedMap:
        """An event whose `action` is a state."""
        entry = self.attributes(element, vocabulary)
        action = entry.pop("state", None)
        if action in _STATES:
            entry["state"] = _STATES[str(action)]
        elif action is not None:
            message = f"action: {shown(str(action))} is nothing that links and bridges do"
            hint = "write join or leave (to change a link, leave `action` out)"
            self.findings.add(error("bad-value", message, hint, self.where(element, "action")))
            entry["state"] = "down"  # keeps the builder from reporting the same event once more
        return entry

    def link_event(self, element: Element) -> MarkedMap:
        entry = self.stateful(element, _LINK_EVENT | {"origin": "first-end", "dest": "second-end"})
        ends = MarkedList(element.at)
        for key in ("first-end", "second-end"):
            ends.put(entry.pop(key, ""), entry.place(key)[1])
        entry["link"] = ends
        self.lexis(element)
        if entry.get("state") == "down":
            for key in [key for key in entry if key in _LINK_EVENT.values() and key not in ("at", "state")]:
                message = f"`{entry.spelled(key)}` has no meaning where a link leaves (Kollaps ignores it)"
                self.findings.add(error("bad-event", message, "remove it", self.source.where(entry.place(key)[0])))
                del entry[key]
        if "down" not in entry:
            entry["one-way"] = "true"
            if "state" not in entry:
                self.note(
                    "one-way-event",
                    "without `download` only the direction from `origin` to `dest` changes",
                    "give `download` to change both",
                    element,
                )
        return entry


def _is_rate(text: str) -> bool:
    try:
        parse_rate_bps(text)
    except UnitError:
        return False
    return True


def read_xml(source: Source, findings: Findings) -> MarkedMap:
    """The document's root; raises Rejected where nothing sensible can follow."""
    return _Reader(source, findings).read(parse_tree(source, findings))
