"""A plan → `topology.xml` and the manifest that real Kollaps 2.0 wants. Pure, but for the templates that are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

from testbed.errors import Finding, InvalidInput, error
from testbed.manifests import Manifest
from testbed.manifests.kollaps.learner import LearnerStart, learner_start, plan_file
from testbed.manifests.kollaps.rewrite import rewritten
from testbed.manifests.templates import compose_value, fill, shell_word, yaml_value
from testbed.plan.files import to_text
from testbed.plan.model import RunPlan
from testbed.targets.kollaps_services import DASHBOARD_PORT
from testbed.topologies.load import load_bytes
from testbed.topologies.model import DEFAULT_NETWORK, Service, Topology
from testbed.topologies.source import Form
from testbed.topologies.write import write_text
from testbed.units import shown

TOPOLOGY_FILE, SWARM_FILE, KUBERNETES_FILE, README_FILE = (
    "topology.xml",
    "docker-stack.yml",
    "kubernetes.yaml",
    "README.txt",
)
_RUNS = UUID("5f0d6c3e-3b1c-5f3a-9d0e-7c1f4f0f8a11")
"""A name space of our own: the experiment's UUID follows from the run's id, so that the same plan is the same text."""
_MOST_CONFIG_BYTES = 2**20 - 2**12
"""Kubernetes keeps no more than 1 MiB, with its own words around it."""
_STACK, _MOST_BESIDE_NAME = "testbed", 25
_SMALL_NETWORK = 250
_NODE_PORT = 30007
"""Where Kubernetes shows the dashboard; in the template, too."""


class Orchestrator(StrEnum):
    """What starts Kollaps and the containers."""

    SWARM = "swarm"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True)
class _Entry:
    """One service as a template sees it."""

    name: str
    image: str
    command: tuple[str, ...]
    supervisor: bool
    port: int | None
    replicas: int
    learner: LearnerStart | None


def experiment_uuid(run_id: str) -> str:
    """Kollaps' name for the experiment of a run."""
    return str(uuid5(_RUNS, run_id))


def render(
    plan: RunPlan,
    orchestrator: Orchestrator,
    *,
    folder: str,
    topology: Topology | None = None,
    file: str = "",
    machines: int = 1,
    uuid: str | None = None,
) -> Manifest:
    """The files; `folder` is where they will lie on every machine, `topology` the plan's with its places in `file`.

    Raises InvalidInput where Kollaps cannot run the topology, nor one that is equal to it.
    """
    given = topology if topology is not None else plan.load_topology()
    file = file or plan.topology_name
    is_swarm = orchestrator is Orchestrator.SWARM
    kollaps, said = rewritten(given, file, lower_case=not is_swarm)
    xml = write_text(kollaps, Form.XML, file)
    _check_reading(xml, kollaps, file)
    _check_fits(xml, folder, file, is_swarm=is_swarm)
    devices = {service.name: service for service in given.services}
    services = [_entry(plan.run_id, service, devices, folder) for service in kollaps.services]
    network = next((link.network for link in kollaps.links), DEFAULT_NETWORK)
    manifest = fill(
        "kollaps-swarm.yml.j2" if is_swarm else "kollaps-kubernetes.yml.j2",
        compose_value if is_swarm else yaml_value,
        boot=kollaps.kollaps.boot,
        uuid=uuid or experiment_uuid(plan.run_id),
        machines=machines,
        services=services,
        network=network,
        topology_file=f"{folder.rstrip('/')}/{TOPOLOGY_FILE}",
        topology=xml,
    )
    longest = max(len(service.name) for service in kollaps.services)
    readme = fill(
        "kollaps-README.txt.j2",
        shell_word,
        is_swarm=is_swarm,
        network=network,
        subnet="10.1.0.0/24" if len(given.nodes) <= _SMALL_NETWORK else "10.1.0.0/20",
        stack=_STACK[: _MOST_BESIDE_NAME - longest],
        port=DASHBOARD_PORT if is_swarm else _NODE_PORT,
    )
    files = {
        TOPOLOGY_FILE: xml,
        SWARM_FILE if is_swarm else KUBERNETES_FILE: manifest,
        plan_file(plan.run_id): to_text(plan),
        README_FILE: readme,
    }
    return Manifest(files, tuple(dict.fromkeys(said)))


def _entry(run_id: str, service: Service, devices: dict[str, Service], folder: str) -> _Entry:
    learner = None if service.supervisor else learner_start(run_id, devices[service.name], folder)
    return _Entry(
        service.name, service.image, service.command, service.supervisor, service.port, service.replicas, learner
    )


def _check_reading(xml: str, kollaps: Topology, file: str) -> None:
    """What was written must be read as what was meant; rewriting events can ask for more replicas than there are."""
    again = load_bytes(xml.encode(), Form.XML, file)
    if again.topology is None:
        raise InvalidInput(file, [_unwritable(each) for each in again.findings])
    if again.topology != kollaps:
        message = "rewritten for Kollaps, this would be read as another topology"
        raise InvalidInput(file, [error("kollaps-cannot-say", message, "take another runtime")])


def _unwritable(finding: Finding) -> Finding:
    """At the beginning: its place is one in a text that nobody has seen."""
    return Finding(finding.severity, finding.code, f"rewritten for Kollaps: {finding.message}", finding.hint)


def _check_fits(xml: str, folder: str, file: str, *, is_swarm: bool) -> None:
    if is_swarm and ":" in folder:
        message = f"{shown(folder)}: a folder with a colon cannot be mounted"
        raise InvalidInput(file, [error("kollaps-path", message, "take another folder, or give --path")])
    if not is_swarm and len(xml.encode()) > _MOST_CONFIG_BYTES:
        message = f"the topology has {len(xml.encode())} bytes as XML, and a ConfigMap takes less than 1 MiB"
        raise InvalidInput(
            file, [error("kollaps-config-size", message, "use bridges instead of links between services")]
        )
