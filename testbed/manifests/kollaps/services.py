"""Rewrites services for Kollaps: one dashboard, one network, no devices, single replicas named as their service.

Takes a `Topology`, gives an equivalent one and notes; touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from testbed.errors import Finding, note
from testbed.targets.host_names import learners
from testbed.targets.kollaps_services import DASHBOARD_PORT
from testbed.topologies.model import LinkEvent, NodeEvent, Service, Topology
from testbed.units import shown

DASHBOARD = "dashboard"
DASHBOARD_IMAGE = "kollaps/dashboard:1.0"
Rewritten = tuple[Topology, list[Finding]]


def with_dashboard(topology: Topology) -> Rewritten:
    """Ensures one supervisor that Kollaps starts and that is reachable; several are left to be refused."""
    supervisors = [service for service in topology.services if service.supervisor]
    if len(supervisors) > 1:
        return topology, []
    old = supervisors[0] if supervisors else None
    taken = {service.name for service in learners(topology)} | topology.bridge_names
    if old is None:
        if DASHBOARD in taken:
            return topology, []
        added = Service(DASHBOARD, DASHBOARD_IMAGE, supervisor=True, port=DASHBOARD_PORT)
        told = note("kollaps-no-supervisor", f"{shown(DASHBOARD)} was added: it starts the experiment", added.image)
        return replace(topology, services=(added, *topology.services)), [told]
    name = old.name if DASHBOARD in old.name or DASHBOARD in taken else DASHBOARD
    new = replace(old, name=name, port=DASHBOARD_PORT, replicas=1)
    if new == old:
        return topology, []
    services = tuple(new if service is old else service for service in topology.services)
    message = f"the supervisor {shown(old.name)} is now called {shown(name)}, with port {DASHBOARD_PORT}, once"
    return replace(topology, services=services), [note("kollaps-supervisor", message, "", old.where)]


def without_devices(topology: Topology) -> Rewritten:
    """Removes devices, which XML cannot express: the manifest limits processors and memory, the plan has the speed."""
    plain = tuple(replace(service, cpus=None, memory_bytes=None, speed=1.0) for service in topology.services)
    changed = [new for old, new in zip(topology.services, plain, strict=True) if old != new]
    if not changed:
        return topology, []
    names = ", ".join(shown(service.name) for service in changed[:3]) + (", …" if len(changed) > 3 else "")
    message = f"what devices {names} are stands in the manifest (processors, memory) and in the plan (speed)"
    return replace(topology, services=plain), [note("kollaps-cannot-say", message, "", changed[0].where)]


def one_network(topology: Topology) -> Rewritten:
    """Puts all links into the container network of the first, which makes no difference to the topology."""
    if not topology.links:
        return topology, []
    first = topology.links[0].network
    other = next((link for link in topology.links if link.network != first), None)
    if other is None:
        return topology, []
    links = tuple(replace(link, network=first) for link in topology.links)
    message = f"all links are in {shown(first)}, none in {shown(other.network)}: Kollaps knows one network"
    return replace(topology, links=links), [note("kollaps-networks", message, "", other.where)]


def whole_services(topology: Topology) -> Rewritten:
    """Names the only node of a service as its service."""
    only = {f"{service.name}.0": service.name for service in learners(topology) if service.replicas == 1}
    links = tuple(
        replace(link, origin=_called(link.origin, only), dest=_called(link.dest, only)) for link in topology.links
    )
    events = tuple(
        replace(event, origin=_called(event.origin, only), dest=_called(event.dest, only))
        if isinstance(event, LinkEvent)
        else replace(event, targets=tuple(_called(target, only) for target in event.targets))
        if isinstance(event, NodeEvent)
        else event
        for event in topology.events
    )
    return replace(topology, links=links, events=events), []


def _called(name: str, only: Mapping[str, str]) -> str:
    return only.get(name, name)
