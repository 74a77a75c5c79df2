"""Descriptions of a run's containers, in terms of the Docker Engine's API.

Takes a plan and its run directory, gives each container's limits, mounts and labels; pure.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.engines.privileges import User
from testbed.plan.containers import (
    FABRIC_SHARES,
    LEARNER_PIDS,
    LEARNER_SHARES,
    PART_PIDS,
    PART_SHARES,
    TMP_OPTIONS,
    limits_of,
)
from testbed.plan.hosts import hosts_of
from testbed.plan.model import PlannedNode, RunPlan
from testbed.plan.tcp import settings_of, tcp_of
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.docker.socket_places import InFolder, Mount, OnVolumes, SocketPlaces

RUN_LABEL, FOLDER_LABEL, PART_LABEL = "testbed.run", "testbed.folder", "testbed.part"
OF_RUN = (RUN_LABEL, FOLDER_LABEL)
"""The labels of all containers and volumes of a run."""
NODE_LABEL, RANK_LABEL = "testbed.node", "testbed.rank"
CONTROL, FABRIC, LEARNER, SOCKETS = "control", "fabric", "learner", "sockets"
_LEARNERS_CAPABILITIES = ("NET_ADMIN", "SETUID", "SETGID")
"""To create the TUN device, and to change to the user's id. None is left when the learner trains."""
_GIVES_AWAY = ("CHOWN",)
"""New volumes belong to root."""
_TUN = "/dev/net/tun"
_INSIDE = ContainerPaths()
_WHOSE_DIGITS = 6
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


@dataclass(frozen=True)
class Container:
    """The description of one container of a run."""

    name: str
    part: str
    """The argument of its first process."""
    user: User
    mounts: tuple[Mount, ...]
    labels: dict[str, str]
    pids: int
    shares: int
    """Relative weight for processor time."""
    environment: dict[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sysctls: dict[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    processors: float | None = None
    hosts: dict[str, str] = field(default_factory=dict)
    """Addresses of the other nodes, by name."""
    restarts: int = 0
    """How often it may be started again after a failure."""


def isolation_options() -> dict[str, Any]:
    """Host configuration of every container that may run untrusted code."""
    return {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "read_only": True,
        "tmpfs": {"/tmp": TMP_OPTIONS},  # noqa: S108 - the container's own
        "security_opt": ["no-new-privileges"],
    }


def name_of(run: RunDirectory, run_id: str, part: str) -> str:
    """A container's name. A hash of the run directory tells runs of other users with the same id apart."""
    whose = hashlib.sha256(os.fsencode(run.path.resolve())).hexdigest()[:_WHOSE_DIGITS]
    return f"testbed-{run_id}-{whose}-{part}"


def _part_of(node: PlannedNode) -> str:
    """The last part of a learner's container name: the node's name, without characters that Docker refuses."""
    name = _NOT_IN_NAMES.sub("_", node.name)
    return name if name == node.name else f"{name}-r{node.rank}"


def sockets_maker(plan: RunPlan, run: RunDirectory, user: User, volumes: OnVolumes) -> Container:
    """The container that lays out new volumes and gives them to the user. It ends before the others start."""
    return Container(
        name_of(run, plan.run_id, SOCKETS),
        SOCKETS,
        User(0, 0),
        volumes.of_all(),
        {**_labels(plan, run), PART_LABEL: SOCKETS},
        PART_PIDS,
        PART_SHARES,
        _who(user),
        _GIVES_AWAY,
    )


def containers_of(
    plan: RunPlan, run: RunDirectory, user: User, data: Path, sockets: SocketPlaces | None = None
) -> list[Container]:
    """The containers of the fabric, control, and every learner by rank. `data` is the data cache.

    The sockets are in the run directory by default.
    """
    sockets = sockets or InFolder(run)
    labels = _labels(plan, run)
    whole = Mount(run.path, _INSIDE.run.path)
    cache = Mount(data, _INSIDE.data, read_only=True)
    fabric_mounts = (
        *sockets.of_all(),
        Mount(run.path / "engine", _INSIDE.run.path / "engine"),
        Mount(run.path / "runtime" / "fabric", _INSIDE.fabric, read_only=True),
    )
    data_there = {"TESTBED_DATA": str(_INSIDE.data)}
    seen = {FABRIC: fabric_mounts, CONTROL: (*sockets.of_all(), whole, cache)}
    serving = [
        Container(
            name_of(run, plan.run_id, part),
            part,
            user,
            mounts,
            {**labels, PART_LABEL: part},
            PART_PIDS,
            FABRIC_SHARES if part == FABRIC else PART_SHARES,
            data_there,
        )
        for part, mounts in seen.items()
    ]
    limits, hosts = limits_of(plan, plan.load_topology()), hosts_of(plan)
    sysctls = {f"net.ipv4.{name}": value for name, value in settings_of(tcp_of(plan), user.gid).items()}
    learners = [
        Container(
            name=name_of(run, plan.run_id, _part_of(node)),
            part=LEARNER,
            user=User(0, 0),
            mounts=(*sockets.of_node(node.rank), *_own(run, node), cache),
            labels={**labels, PART_LABEL: LEARNER, NODE_LABEL: node.name, RANK_LABEL: str(node.rank)},
            pids=LEARNER_PIDS,
            shares=LEARNER_SHARES,
            environment={**data_there, **_who(user)},
            capabilities=_LEARNERS_CAPABILITIES,
            devices=(_TUN,),
            sysctls=sysctls,
            memory_bytes=limit.memory_bytes,
            processors=limit.processors,
            hosts=hosts,
            restarts=limit.returns,
        )
        for node, limit in zip(plan.nodes, limits, strict=True)
    ]
    return [*serving, *learners]


def _labels(plan: RunPlan, run: RunDirectory) -> dict[str, str]:
    return {RUN_LABEL: plan.run_id, FOLDER_LABEL: str(run.path)}


def _who(user: User) -> dict[str, str]:
    """Environment of containers that start as root: the user to change to."""
    return {"TESTBED_UID": str(user.uid), "TESTBED_GID": str(user.gid)}


def _own(run: RunDirectory, node: PlannedNode) -> tuple[Mount, ...]:
    """The run's files that only this node sees."""
    directory = run.node(node.name)
    return (
        Mount(directory.path, _INSIDE.node.path),
        Mount(directory.plan, _INSIDE.node.plan, read_only=True),
    )
