"""A Compose service for each node: its container's name, limits and mounts.

Takes a plan and its topology, gives a `Learner` for each node; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.manifests.compose.names import host_name, service_key
from testbed.manifests.compose.variables import DATA, RESULTS, Filled, filled, stands_in_a_mount
from testbed.plan.containers import Limits, limits_of
from testbed.plan.model import PlannedNode, RunPlan
from testbed.topologies.model import Topology

_MIB = 1 << 20
DATA_MOUNT = filled(DATA, ":/testbed/data:ro")


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Resource limits of a container, as Compose writes them."""

    memory: str
    processors: float | None
    restart: str


@dataclass(frozen=True, slots=True)
class Learner:
    """A node's service as the template needs it."""

    key: str
    name: str
    rank: str
    host: str
    service: ServiceLimits
    mounts: tuple[Filled, ...]


def learners_of(plan: RunPlan, topology: Topology) -> list[Learner]:
    """The learners by rank."""
    return [
        Learner(
            key=service_key(node),
            name=node.name,
            rank=str(node.rank),
            host=host_name(node),
            service=_service(limits),
            mounts=_mounts(plan.run_id, node),
        )
        for node, limits in zip(plan.nodes, limits_of(plan, topology), strict=True)
    ]


def of_all(learners: Sequence[Learner]) -> ServiceLimits | None:
    """The limits of all learners if they are equal; otherwise None."""
    several = {learner.service for learner in learners}
    return several.pop() if len(several) == 1 else None


def folder_of(run_id: str, node: PlannedNode) -> str:
    """Folder of a node's results below the folder of runs; named by rank where Compose would misread the name."""
    own = node.name if stands_in_a_mount(node.name) else None
    return f"/{run_id}/nodes/{own}" if own else f"/{run_id}/runtime/nodes/{node.rank}"


def _mounts(run_id: str, node: PlannedNode) -> tuple[Filled, ...]:
    folder = folder_of(run_id, node)
    return (
        filled(RESULTS, f"/{run_id}/runtime/sockets/nodes/{node.rank}:/testbed/sockets"),
        filled(RESULTS, f"/{run_id}/runtime/sockets/slots:/testbed/slots:ro"),
        filled(RESULTS, f"{folder}:/testbed/node"),
        filled(RESULTS, f"{folder}/plan.json:/testbed/node/plan.json:ro"),
    )


def _service(limits: Limits) -> ServiceLimits:
    """Limits, with restarts: each life of a node is a start of its container."""
    return ServiceLimits(
        memory=f"{-(-limits.memory_bytes // _MIB)}m",
        processors=limits.processors,
        restart=f"on-failure:{limits.returns}" if limits.returns else "no",
    )
