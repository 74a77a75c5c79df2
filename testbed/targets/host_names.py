"""Host names of nodes in a cluster. Takes names, gives labels and what is wrong with them; touches nothing.

A node `s.i` has the host name `<run>-s-i`, where `<run>` is the id of its run. As i is a number without a dash, no two
nodes have the same label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from testbed.errors import Finding, error
from testbed.topologies.model import Service, Topology
from testbed.units import shown

MAX_LABEL = 63
"""Longest label of a host name, by RFC 1123."""
RUN_ID_LENGTH = 24
MAX_NODE_LABEL = MAX_LABEL - RUN_ID_LENGTH - len("-")

_OUTSIDE_LABEL = re.compile(r"[^A-Za-z0-9-]")


def learners(topology: Topology) -> Iterator[Service]:
    """The services that are nodes."""
    return (service for service in topology.services if not service.supervisor)


def node_label(service: str, replica: int) -> str:
    return f"{service}-{replica}"


def outside_label(name: str) -> str | None:
    """The first character that a host name cannot contain."""
    found = _OUTSIDE_LABEL.search(name)
    return found[0] if found else None


def not_a_label(services: Iterable[Service], code: str) -> Iterator[Finding]:
    """An error for every service whose name contains a character that host names cannot."""
    for service in services:
        bad = outside_label(service.name)
        if bad is not None:
            message = f"{shown(service.name)} is not a host name: it holds {shown(bad)}"
            yield error(code, message, "use letters, digits and `-` only", service.where)


def too_long_a_label(services: Iterable[Service], code: str) -> Iterator[Finding]:
    """An error for every service whose last node's label is too long beside the run's id."""
    for service in services:
        longest = len(node_label(service.name, service.replicas - 1))
        if longest > MAX_NODE_LABEL:
            yield error(
                code,
                f"{shown(service.name)} is too long for host names `<run>-<service>-<replica>`: without the run's id "
                f"they have up to {longest} characters, and {MAX_NODE_LABEL} of {MAX_LABEL} are left beside an id of "
                f"{RUN_ID_LENGTH}",
                f"shorten the name by {longest - MAX_NODE_LABEL}",
                service.where,
            )
