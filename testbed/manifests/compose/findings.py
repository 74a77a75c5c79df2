"""Findings about a run by Compose: where it differs from the topology, or from what its writer may expect.

Takes a plan and its topology, gives findings; pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.errors import Finding, InvalidInput, Where, has_errors, note, warning
from testbed.experiment.attached import own_files
from testbed.manifests.compose.learners import Learner
from testbed.plan.containers import UNKNOWN_BYTES, has_usual_size, needed_memory_bytes
from testbed.plan.model import RunPlan
from testbed.targets.containers import docker_findings
from testbed.targets.host_names import learners as learning
from testbed.topologies.model import DEFAULT_IMAGE, Service, Topology
from testbed.units import format_size, shown

_NOT_HERE = ("docker-name", "docker-image", "docker-command")
"""Not reported here: Compose's own names are made from the nodes' names, and `compose_findings` reports the others."""


def check(topology: Topology, file: str) -> None:
    """Raises InvalidInput for topologies that no Engine can run."""
    found = [finding for finding in docker_findings(topology) if finding.code not in _NOT_HERE]
    if has_errors(found):
        raise InvalidInput(file, found)


def compose_findings(plan: RunPlan, topology: Topology, made: Sequence[Learner]) -> Iterator[Finding]:
    """All findings, warnings first."""
    yield from _files(plan)
    services = list(learning(topology))
    commanded = [service for service in services if service.command]
    if commanded:
        message = f"{_some(commanded)}: a container of a node runs a learner, and no command of its own"
        yield warning("compose-command", message, "bake what it does into the image", commanded[0].where)
    renamed = [learner for learner in made if learner.key != learner.name]
    if renamed:
        first = renamed[0]
        message = (
            f"{len(renamed)} nodes have other names in the file, such as {shown(first.name)}, which is "
            f"{shown(first.key)}: the label testbed.node has the true one"
        )
        yield note("compose-name", message, "", _where(topology, int(first.rank)))
    pictured = [service for service in services if service.image != DEFAULT_IMAGE]
    if pictured:
        message = f"{_some(pictured)} names an image, and all containers of a run have the one in TESTBED_IMAGE"
        yield note("compose-image", message, "", pictured[0].where)
    yield from _memory(plan, topology)


def _files(plan: RunPlan) -> Iterator[Finding]:
    names = list(dict.fromkeys(own_files(plan.experiment)))
    if names:
        message = f"no container sees {', '.join(map(shown, names))}, unless it is in the image"
        yield warning("compose-own-files", message, "such as by `testbed build --algorithm FILE`")


def _memory(plan: RunPlan, topology: Topology) -> Iterator[Finding]:
    for node in topology.nodes:
        declared, needed = node.service.memory_bytes, needed_memory_bytes(plan, node.rank)
        if declared is not None and declared < needed:
            message = (
                f"{shown(node.service.name)} has {format_size(declared)}, and its containers get "
                f"{format_size(needed)}: a learner with less may be killed"
            )
            yield note("compose-memory", message, "", node.service.where)
            break
    if plan.parameters is None and not has_usual_size(plan):
        message = (
            f"how large {shown(plan.experiment.model.name)} is cannot be seen without loading it: "
            f"each learner may use {format_size(UNKNOWN_BYTES)}"
        )
        yield note("compose-model-size", message, "say `memory` of the services, or render a plan with `parameters`")


def _some(services: Sequence[Service]) -> str:
    return ", ".join(shown(service.name) for service in services[:3]) + (", …" if len(services) > 3 else "")


def _where(topology: Topology, rank: int) -> Where | None:
    return topology.nodes[rank].service.where
