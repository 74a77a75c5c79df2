"""The problem for an unknown node name, with a suggestion and the existing names.

Takes a name and the existing ones, gives a problem to raise; touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from testbed.errors import UsageProblem, closest
from testbed.units import shown

_MOST_TOLD = 8


def unknown_node(
    name: str, nodes: Iterable[tuple[str, str]], bridges: Collection[str] | None = None, before: str = ""
) -> UsageProblem:
    """`nodes`: names with their services, in order; `bridges`: where a bridge would be allowed as well."""
    services: dict[str, list[str]] = {}
    for node, service in nodes:
        services.setdefault(service, []).append(node)
    every = [*services, *(node for found in services.values() for node in found), *sorted(bridges or ())]
    near = closest(name, every)
    there_are = f"nodes here: {_some([_span(found) for found in services.values()], 'services')}"
    if bridges:
        there_are += f"; bridges: {_some(sorted(bridges), 'bridges')}"
    what = "node" if bridges is None else "node and no bridge"
    hint = there_are if near is None else f"did you mean {shown(near)}? {there_are}"
    return UsageProblem(f"{before}there is no {what} {shown(name)}", hint)


def _span(nodes: Sequence[str]) -> str:
    """The numbered nodes of a service."""
    return ", ".join(nodes) if len(nodes) <= 2 else f"{nodes[0]} to {nodes[-1]}"


def _some(names: Sequence[str], what: str) -> str:
    more = len(names) - _MOST_TOLD
    return ", ".join(names[:_MOST_TOLD]) + (f" and {more} more {what}" if more > 0 else "") if names else "none"
