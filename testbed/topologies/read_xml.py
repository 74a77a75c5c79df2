"""XML text in Kollaps 2.0's language → the same marked values as from YAML. Pure.

Document types, and with them entities of any kind, are refused; nesting is bounded. The element and attribute
tables below are the whole of the XML vocabulary. Where Kollaps' two parsers disagree with each other or with
common sense, the meaning here is fixed and a note (codes `kollaps-…`) says what Kollaps would do.
"""

from __future__ import annotations

import shlex

from testbed.errors import Findings, error, note, warning
from testbed.topologies.marked import MarkedList, MarkedMap, Value
from testbed.topologies.read_xml_events import EventReader
from testbed.topologies.read_yaml import read_yaml
from testbed.topologies.source import Rejected, Source
from testbed.topologies.xml_elements import LINK, ElementReader
from testbed.topologies.xml_tree import Element, parse_tree
from testbed.units import shown

_SECTIONS = ("config", "services", "bridges", "links", "dynamic")

_SERVICE = {name: name for name in ("image", "command", "replicas", "reuse", "supervisor", "port")}
_SERVICE["activepaths"] = "active-paths"
_BAREMETAL = {"ip", "machinename", "kollaps_folder", "topology_file", "controllername", "script", "controller_ip"}
_CONFIG = {"shortest_path": "routing", "pool_period": "pool-period", "max_age": "max-age", "name": "name"}

_ROUTING = {"hop": "hops", "latency": "latency"}


class _Reader(ElementReader):
    """Maps elements onto the language's keys."""

    def read(self, root: Element) -> MarkedMap:
        if root.tag != "experiment":
            hint = "a topology begins with <experiment boot=…>"
            raise Rejected(error("root", f"the root element is <{root.tag}>", hint, self.where(root)))
        kollaps = MarkedMap(root.at)
        own = self.attributes(root, {"boot": "boot"})
        for key, value in own.items():
            kollaps.put(key, value, *own.place(key))
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
        document["events"] = EventReader(self.source, self.findings).events(
            sections.get("dynamic", root), {str(name) for name in bridges}, targets
        )
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
        if "links" not in found:  # missing services are reported by the builder
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
        """As in Kollaps, a service that joins has as many replicas as its joins need, regardless of its attribute."""
        joining = {
            event.attributes.get("name") for event in section.children if event.attributes.get("action") == "join"
        }
        for name, entry in services.items():
            replicas = entry.get("replicas") if name in joining and isinstance(entry, MarkedMap) else None
            if not isinstance(entry, MarkedMap) or not isinstance(replicas, str) or replicas.lstrip("0") == "":
                continue  # a bad value is reported by the builder
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
        """Parses `['a','b']`, Kollaps' form of lists; a plain text is split like a shell command."""
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
            entry = self.attributes(element, LINK)
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


def read_xml(source: Source, findings: Findings) -> MarkedMap:
    """The document's root; raises Rejected for text that cannot be read further."""
    return _Reader(source, findings).read(parse_tree(source, findings))
