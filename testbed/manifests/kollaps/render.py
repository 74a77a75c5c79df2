"""A plan → `topology.xml` and the manifest for Kollaps 2.0. Pure, except that it reads templates."""

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
"""Our UUID name space: the experiment's UUID follows from the run's id, so that the same plan gives the same text."""
_MOST_CONFIG_BYTES = 2**20 - 2**12
"""Kubernetes' limit of 1 MiB, less its own overhead."""
_STACK, _MOST_BESIDE_NAME = "testbed", 25
_SMALL_NETWORK = 250
_NODE_PORT = 30007
"""The dashboard's port on Kubernetes, also in the template."""


class Orchestrator(StrEnum):
    """The orchestrator that starts Kollaps and the containers."""

    SWARM = "swarm"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True)
class _Entry:
    """A service as a template needs it."""

    name: str
    image: str
    command: tuple[str, ...]
    supervisor: bool
    port: int | None
    replicas: int
    learner: LearnerStart | None


def experiment_uuid(run_id: str) -> str:
    """Kollaps' UUID for the experiment of a run."""
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
    """Renders the files; `folder`: their path on every machine, `topology`: the plan's, with its places in `file`.

    Raises InvalidInput where Kollaps can run neither the topology nor an equivalent one.
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
    """Reads the XML back and compares: rewritten events may ask for more replicas than there are."""
    again = load_bytes(xml.encode(), Form.XML, file)
    if again.topology is None:
        raise InvalidInput(file, [_unwritable(each) for each in again.findings])
    if again.topology != kollaps:
        message = "rewritten for Kollaps, this would be read as another topology"
        raise InvalidInput(file, [error("kollaps-cannot-say", message, "take another runtime")])


def _unwritable(finding: Finding) -> Finding:
    """The finding without its place, which is one in the generated text."""
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
