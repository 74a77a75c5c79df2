"""Kollaps' requirements on services: names, the dashboard, images and commands.

Takes a `Topology`, gives findings; touches nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import yaml

from testbed.errors import Finding, error, warning
from testbed.targets.host_names import learners, not_a_label
from testbed.topologies.model import LinkEvent, Service, Topology
from testbed.units import shown

DASHBOARD_PORT = 8088
_MOST_BESIDE_STACK = 25
"""What `<stack>_<name>-<uuid>`, at most 63 characters for Swarm, leaves to stack and name together."""
_USUAL_STACK = 7
_RESERVED = ("dashboard", "logger")
_FEW = 5


def service_findings(topology: Topology) -> Iterator[Finding]:
    yield from _dashboards(topology)
    yield from _names(topology)
    yield from _images(topology)
    for service in learners(topology):
        yield from _command(service)
        yield from _active_paths(topology, service)


def _dashboards(topology: Topology) -> Iterator[Finding]:
    supervisors = [service for service in topology.services if service.supervisor]
    if not supervisors:
        yield error(
            "kollaps-no-supervisor",
            "there is no supervisor: without its dashboard the experiment cannot be started",
            'add <service name="dashboard" image="kollaps/dashboard:1.0" supervisor="true" port="8088"/>; in YAML, '
            "`dashboard: {image: kollaps/dashboard:1.0, supervisor: true, port: 8088}`",
            next((service.where for service in topology.services), None),
        )
    for service in supervisors[1:]:
        message = f"{shown(service.name)} is a second supervisor beside {shown(supervisors[0].name)}"
        yield error("kollaps-two-supervisors", message, "keep one of them", service.where)
    for service in supervisors:
        yield from _dashboard(service)


def _dashboard(service: Service) -> Iterator[Finding]:
    if "dashboard" not in service.name:
        yield error(
            "kollaps-supervisor-name",
            f"the supervisor's name, {shown(service.name)}, does not contain `dashboard`: Kollaps would never start it",
            "call it dashboard",
            service.where,
        )
    if service.port != DASHBOARD_PORT:
        port = "has no port" if service.port is None else f"has the port {service.port}"
        yield error(
            "kollaps-supervisor-port",
            f"the supervisor {port}, and its dashboard always listens on {DASHBOARD_PORT}: it could not be reached",
            f"give it the port {DASHBOARD_PORT}",
            service.where,
        )
    if service.replicas != 1:
        message = f"the supervisor has {service.replicas} replicas: Kollaps knows one dashboard"
        yield error("kollaps-supervisor-replicas", message, "remove `replicas`", service.where)


def _names(topology: Topology) -> Iterator[Finding]:
    yield from not_a_label(topology.services, "kollaps-name")
    for service in topology.services:
        name = service.name
        if _not_a_text(name):
            yield error(
                "kollaps-name-type",
                f"{shown(name)} is not a text in the manifest that Kollaps writes without quotes",
                "begin the name with a letter, and take no word that YAML knows",
                service.where,
            )
        left = _MOST_BESIDE_STACK - len(name)
        if left < _USUAL_STACK:
            characters = "no character" if left < 1 else f"{left} character{'s' if left > 1 else ''}"
            words = f"leaves {characters} for the name of the Swarm stack"
            yield (error if left < 1 else warning)(
                "kollaps-name-length",
                f"{shown(name)} has {len(name)} characters, which {words}",
                f"together they may have {_MOST_BESIDE_STACK}: shorten the name by {_USUAL_STACK - left}"
                + ("" if left < 1 else ", or deploy under a stack name that short"),
                service.where,
            )
        if any(char.isupper() for char in name):
            message = f"{shown(name)}: Kubernetes takes lower-case names only, so that this runs on Swarm and not there"
            yield warning("kollaps-upper-case", message, f"call it {shown(name.lower())}", service.where)
        reserved = next((word for word in _RESERVED if word in name), None)
        if reserved is not None and not service.supervisor:
            yield error(
                "kollaps-reserved-name",
                f"{shown(name)} contains `{reserved}`: Kollaps would start it as its own {reserved}",
                "rename it (the name of the stack must not contain that word either)",
                service.where,
            )


def _not_a_text(name: str) -> bool:
    """Whether YAML reads the unquoted name as a number, a date or a truth value."""
    return any(pattern.match(name) for _tag, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(name[:1], ()))


def _images(topology: Topology) -> Iterator[Finding]:
    first = next(learners(topology), None)
    if first is not None:
        images = sorted({service.image for service in learners(topology)})
        more = f" and {len(images) - _FEW} more" if len(images) > _FEW else ""
        yield warning(
            "kollaps-images",
            f"these images must define an ENTRYPOINT and hold /bin/sh and mkfifo, or nothing is started in them: "
            f"{', '.join(shown(image) for image in images[:_FEW])}{more}",
            "look with `docker image inspect`, and try `command -v mkfifo` in `docker run --entrypoint /bin/sh`",
            first.where,
        )


def _command(service: Service) -> Iterator[Finding]:
    lost = next((word for word in service.command if shlex.quote(word) != word), None)
    if lost is not None:
        yield error(
            "kollaps-command-quoting",
            f"command of {shown(service.name)}: Kollaps hands {shown(lost)} to a shell without its quotes, "
            "so that it arrives as something else",
            "use words of letters, digits and _ @ % + = : , . / - only; put the rest into a script in the image",
            service.where,
        )


def _active_paths(topology: Topology, service: Service) -> Iterator[Finding]:
    if not service.active_paths:
        return
    for target in service.active_paths:
        if len(topology.select(target)) > 1:
            yield error(
                "kollaps-active-replicas",
                f"active paths of {shown(service.name)}: of the replicas of {shown(target)} only the first would be "
                "shaped",
                f"remove {shown(target)} from the list, or give every replica a service of its own",
                service.where,
            )
    if any(isinstance(event, LinkEvent) for event in topology.events):
        yield error(
            "kollaps-active-events",
            f"{shown(service.name)} has active paths, and links change: Kollaps' emulation core crashes when a link "
            "changes on a path that it does not shape",
            "remove the active paths or the link events",
            service.where,
        )
