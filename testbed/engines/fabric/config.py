"""What a fabric is started with: `FOLDER/fabric.json`.

Takes a plan, gives the file; takes the file, gives a `FabricConfig`; touches that file only.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from testbed.engines.fabric.sockets import control_socket, node_socket
from testbed.errors import InvalidInput, UsageProblem, error
from testbed.run_files import Malformed, read_document
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

if TYPE_CHECKING:
    # The fabric's process starts without it: it reads only what was made of it.
    from testbed.plan.model import RunPlan

SCHEMA = 1
FILE = "fabric.json"
_MOST_BYTES = 256 * 2**20
AUTO, NATIVE, PYTHON = "auto", "native", "python"
"""Data planes: the compiled one where it can be loaded, else the one in Python; each by itself."""
DEFAULT_PLANE = "TESTBED_FABRIC"
"""The environment variable that says which is wanted where no option does."""
_SMALLEST_MTU, _LARGEST_MTU = 576, 65_535
_LARGEST_TIME_SCALE = 1000.0


class FabricNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node, at its rank's place in the list."""

    name: str
    address: str


class FabricConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a fabric knows of its run."""

    schema: int
    topology_name: str
    topology: dict[str, object]
    """As in its YAML form."""
    seed: int
    nodes: tuple[FabricNode, ...]
    sockets: str
    """Folder: `nodes/<rank>/fabric.sock` for every node, `fabric.sock` for control."""
    engine: str
    """Folder of what the fabric writes."""
    data_plane: str
    """Which of `planes.PLANES` carries the packets; with AUTO the fabric chooses when it starts."""
    time_scale: float = 1.0
    mtu: int = 1500
    in_order: bool = True
    """Jitter keeps a flow in order."""

    def load_topology(self) -> Topology:
        text = json.dumps(self.topology, ensure_ascii=False)  # JSON is YAML too
        return load_bytes(text.encode(), Form.YAML, self.topology_name).require()

    def addresses(self) -> list[bytes]:
        """By rank."""
        return [socket.inet_aton(node.address) for node in self.nodes]

    def node_socket(self, rank: int) -> Path:
        return node_socket(Path(self.sockets), rank)

    @property
    def control_socket(self) -> Path:
        return control_socket(Path(self.sockets))


def wanted_plane(asked: str | None = None) -> str:
    """What an option asks for, or else the environment; raises UsageProblem for what that cannot ask for."""
    wanted = asked or os.environ.get(DEFAULT_PLANE) or AUTO
    if not asked and wanted not in (AUTO, NATIVE, PYTHON):
        raise UsageProblem(f"{DEFAULT_PLANE}: there is no data plane `{wanted}`", f"{AUTO}, {NATIVE} or {PYTHON}")
    return wanted


def config_of(plan: RunPlan, *, sockets: Path, engine: Path) -> FabricConfig:
    choice = plan.data_plane
    return FabricConfig(
        schema=SCHEMA,
        topology_name=plan.topology_name,
        topology=dict(plan.topology),
        seed=plan.seed,
        nodes=tuple(FabricNode(node.name, node.address) for node in plan.nodes),
        sockets=str(sockets),
        engine=str(engine),
        data_plane=AUTO if choice is None else choice.used or choice.asked,
        time_scale=plan.time_scale,
    )


def write_config(folder: Path, config: FabricConfig) -> Path:
    path = folder / FILE
    path.write_bytes(msgspec.json.encode(config))
    return path


def read_config(folder: Path) -> FabricConfig:
    """Raises InvalidInput or UsageProblem for whatever is not a fabric's configuration."""
    path = folder / FILE
    try:
        config = read_document(path, folder, FabricConfig, _MOST_BYTES)
    except OSError as problem:
        raise UsageProblem(f"{path}: {problem.strerror or problem}") from None
    except Malformed as problem:
        raise InvalidInput(str(path), [error("bad-config", str(problem))]) from None
    problems = [*_problems(config)]
    if problems:
        raise InvalidInput(str(path), [error("bad-config", each) for each in problems])
    return config


def _problems(config: FabricConfig) -> list[str]:
    found = []
    if config.schema != SCHEMA:
        found.append(f"it has schema {config.schema}, this fabric reads {SCHEMA}")
    if not 0 < config.time_scale <= _LARGEST_TIME_SCALE:
        found.append(f"time_scale is {config.time_scale}, not between 0 and {_LARGEST_TIME_SCALE}")
    if not _SMALLEST_MTU <= config.mtu <= _LARGEST_MTU:
        found.append(f"mtu is {config.mtu}, not between {_SMALLEST_MTU} and {_LARGEST_MTU}")
    try:
        addresses = config.addresses()
    except OSError:
        found.append("a node's address is no IPv4 address")
    else:
        if len(set(addresses)) != len(addresses):
            found.append("two nodes have one address")
    return found
