"""What each of the two parsers of real Kollaps reads in a file: its directed links, between services and bridges.

Small models of the behaviour that was observed. Python: a link is always two-way, and `download` is `upload` unless
it is given. Rust: a link without `download` is one-way. Both: rates are what the first match of a pattern says.
Replicas come from the joins of a service, where it has any, else from `replicas`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from itertools import product

Directed = tuple[str, str, float, float, float, float]
"""Origin and dest (with the number of a replica), latency, jitter, loss, rate."""
_UNITS = {"K": 1e3, "M": 1e6, "G": 1e9}


class Refused(Exception):
    """The parser ends here."""


def python_links(xml: str) -> Counter[Directed]:
    return _links(xml, is_rust=False)


def rust_links(xml: str) -> Counter[Directed]:
    if re.match(r"\s*(<\?xml[^>]*\?>)?\s*<!--", xml):
        raise Refused("the first node of the document is not the root element")
    return _links(xml, is_rust=True)


def _links(xml: str, *, is_rust: bool) -> Counter[Directed]:
    root = ElementTree.fromstring(xml)  # noqa: S314 - our own text
    if root.tag != "experiment" or "boot" not in root.attrib:
        raise Refused("root")
    blocks = {"services", "bridges", "links", "dynamic", "config"}
    if not is_rust and any(child.tag not in blocks for child in root):
        raise Refused("unknown tag")
    members = _members(root)
    found: Counter[Directed] = Counter()
    for link in root.findall("links/link"):
        values = link.attrib
        if not {"origin", "dest", "latency", "upload", "network"} <= values.keys():
            raise Refused("incomplete")
        if values["origin"] not in members or values["dest"] not in members:
            raise Refused("unknown end")
        if "true" in (members[values["origin"]].shared, members[values["dest"]].shared):
            raise Refused("shared: the emulation core would end")
        up, down = values["upload"], values.get("download", None if is_rust else values["upload"])
        ends = (values["origin"], values["dest"])
        for (a, b), rate in ((ends, up), (ends[::-1], down)):
            if rate is None:
                continue
            for origin, dest in product(members[a].names, members[b].names):
                if origin != dest:
                    found[
                        origin,
                        dest,
                        float(values["latency"]),
                        float(values.get("jitter", 0)),
                        float(values.get("drop", 0)),
                        _rate(rate, is_rust=is_rust),
                    ] += 1
    return found


class _Member:
    def __init__(self, names: list[str], shared: str = "false") -> None:
        self.names = names
        self.shared = shared


def _members(root: ElementTree.Element) -> dict[str, _Member]:
    members: dict[str, _Member] = {}
    for service in root.findall("services/service"):
        name = service.attrib["name"]
        if "_" in name:
            raise Refused("underscore")
        if "supervisor" in service.attrib:
            continue
        count = _joined(root, name, reuse=service.get("reuse", "true") == "true") or int(service.get("replicas", "1"))
        members[name] = _Member([f"{name}.{number}" for number in range(count)], service.get("share", "false"))
    for bridge in root.findall("bridges/bridge"):
        if bridge.attrib["name"] in members:
            raise Refused("name taken")
        members[bridge.attrib["name"]] = _Member([bridge.attrib["name"]])
    return members


def _joined(root: ElementTree.Element, name: str, *, reuse: bool) -> int:
    events = [each for each in root.findall("dynamic/schedule") if each.get("name") == name]
    present = peak = total = 0
    for event in sorted(events, key=lambda each: float(each.attrib["time"])):
        amount = int(event.get("amount", "1"))
        if event.get("action") == "join":
            present, total = present + amount, total + amount
        elif event.get("action") in ("leave", "crash"):
            present -= amount
            if present < 0:
                raise Refused("negative number of replicas")
        peak = max(peak, present)
    return peak if reuse else total


def _rate(text: str, *, is_rust: bool) -> float:
    pattern = re.compile(r"([0-9]+)([KMG])bps")
    found = pattern.search(text) if is_rust else pattern.match(text)
    if found is None:
        if is_rust:
            return 0.0
        raise Refused("bandwidth")
    if not is_rust and int(found[1]) == 0:
        raise Refused("bandwidth")
    return int(found[1]) * _UNITS[found[2]]
