"""What the containers of a run are like, as the Engine's API takes it.

Takes a plan and where its run lies, gives what each container may use and sees; pure.
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
"""Of all that belongs to a run."""
NODE_LABEL, RANK_LABEL = "testbed.node", "testbed.rank"
CONTROL, FABRIC, LEARNER, SOCKETS = "control", "fabric", "learner", "sockets"
_LEARNERS_CAPABILITIES = ("NET_ADMIN", "SETUID", "SETGID")
"""To make its device, and to become the caller; none is left when it trains."""
_GIVES_AWAY = ("CHOWN",)
"""What is new is root's."""
_TUN = "/dev/net/tun"
_INSIDE = ContainerPaths()
_WHOSE_DIGITS = 6
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


@dataclass(frozen=True)
class Container:
    """One of a run's."""

    name: str
    part: str
    """What its first process is told to be."""
    user: User
    mounts: tuple[Mount, ...]
    labels: dict[str, str]
    pids: int
    shares: int
    """Of processors, compared with others."""
    environment: dict[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sysctls: dict[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    processors: float | None = None
    hosts: dict[str, str] = field(default_factory=dict)
    """Addresses by the names under which it finds others."""
    restarts: int = 0
    """How often it may be started again after a death."""


def isolation_options() -> dict[str, Any]:
    """Of every container in which code of others may run, as the Engine takes its host configuration."""
    return {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "read_only": True,
        "tmpfs": {"/tmp": TMP_OPTIONS},  # noqa: S108 - inside, and nobody else is there
        "security_opt": ["no-new-privileges"],
    }


def name_of(run: RunDirectory, run_id: str, part: str) -> str:
    """On the Engine, where others may have a run of the same id: its directory tells them apart."""
    whose = hashlib.sha256(os.fsencode(run.path.resolve())).hexdigest()[:_WHOSE_DIGITS]
    return f"testbed-{run_id}-{whose}-{part}"


def _part_of(node: PlannedNode) -> str:
    """A learner's container ends with its node's name, as far as the Engine takes it."""
    name = _NOT_IN_NAMES.sub("_", node.name)
    return name if name == node.name else f"{name}-r{node.rank}"


def sockets_maker(plan: RunPlan, run: RunDirectory, user: User, volumes: OnVolumes) -> Container:
    """What lays out new volumes and gives them to the user; ended before there is any other container."""
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
    """The fabric, control, and every learner by rank; `data` is where data sets are kept.

    The sockets are in the run directory where nothing else is said.
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
    """For whoever begins as root."""
    return {"TESTBED_UID": str(user.uid), "TESTBED_GID": str(user.gid)}


def _own(run: RunDirectory, node: PlannedNode) -> tuple[Mount, ...]:
    """What only this node sees of the run's files."""
    directory = run.node(node.name)
    return (
        Mount(directory.path, _INSIDE.node.path),
        Mount(directory.plan, _INSIDE.node.plan, read_only=True),
    )
