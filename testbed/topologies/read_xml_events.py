"""XML schedules → the events of the language. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set

from testbed.errors import error
from testbed.topologies.marked import MarkedList, MarkedMap
from testbed.topologies.xml_elements import LINK, ElementReader
from testbed.topologies.xml_tree import Element
from testbed.units import shown

_NODE_EVENT = {"name": "node", "time": "at", "action": "do", "amount": "count"}
_BRIDGE_EVENT = {"name": "bridge", "time": "at", "action": "state"}
_LINK_EVENT = {"time": "at", "action": "state"} | {key: LINK[key] for key in LINK if key not in ("origin", "dest")}
_STATES = {"join": "up", "leave": "down"}


class EventReader(ElementReader):
    """Reads the `<dynamic>` section."""

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
            entry["state"] = "down"  # keeps the builder from reporting the same event again
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
