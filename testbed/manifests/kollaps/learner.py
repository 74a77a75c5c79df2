"""How a learner starts in a container of Kollaps: its variables, volume and limits.

Takes a plan and a service, gives variables, a volume and limits; touches nothing.

Kollaps keeps a container idle and, when the service joins, executes the image's ENTRYPOINT in it, with the service's
command as arguments. All replicas of a service get the same variables, so a learner finds its number as Kollaps does:
it resolves `<service>-<KOLLAPS_UUID>` until there are as many addresses as replicas, and its number is the position of
its own address among them, in numeric order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.topologies.model import Service
from testbed.units import format_number

RESULTS = "results"
"""Folder of runs beside the manifest."""
_MOUNTED_AT = "/results"


@dataclass(frozen=True)
class LearnerStart:
    """What the containers of a service get beyond Kollaps' own needs."""

    environment: Mapping[str, str]
    volume_source: str
    """Path on every machine of the cluster; results are spread unless all machines share the folder."""
    volume_target: str
    limits: Mapping[str, str]


def learner_start(run_id: str, service: Service, folder: str) -> LearnerStart:
    """The start of a service's learners; `folder`: where the manifest lies on every machine."""
    limits = {}
    if service.cpus is not None:
        limits["cpus"] = format_number(service.cpus)
    if service.memory_bytes is not None:
        limits["memory"] = str(service.memory_bytes)
    return LearnerStart(
        environment={
            "TESTBED_RUN": f"{_MOUNTED_AT}/{run_id}",
            "TESTBED_SERVICE": service.name,
            "TESTBED_REPLICAS": str(service.replicas),
        },
        volume_source=f"{folder.rstrip('/')}/{RESULTS}",
        volume_target=_MOUNTED_AT,
        limits=limits,
    )


def plan_file(run_id: str) -> str:
    """Path of the plan beside the manifest, in the run directory that learners see as TESTBED_RUN."""
    return f"{RESULTS}/{run_id}/plan.json"
