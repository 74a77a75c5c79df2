"""Paths inside the containers of a run, and of the same files outside. Takes a root or a run directory, gives paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.engines.fabric.sockets import node_socket
from testbed.rundir import NodeDirectory, RunDirectory
from testbed.runtimes.containers import NODE, ROOT, SOCKETS


@dataclass(frozen=True)
class ContainerPaths:
    """The paths of all containers; each container has some of them."""

    root: Path = Path(ROOT)

    @property
    def sockets(self) -> Path:
        """In a learner's container, the learner's sockets; in control's and the fabric's, those of all nodes."""
        return self.root / SOCKETS

    @property
    def slots(self) -> Path:
        """The files that learners lock while they compute, shared by all of them and read-only."""
        return self.root / "slots"

    @property
    def node(self) -> NodeDirectory:
        """A learner's results."""
        return NodeDirectory(self.root / NODE)

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.root / "run")

    @property
    def data(self) -> Path:
        """The data cache."""
        return self.root / "data"

    @property
    def fabric(self) -> Path:
        """The folder with the fabric's configuration."""
        return fabric_folder(self.run)


def fabric_folder(run: RunDirectory) -> Path:
    return run.path / "runtime" / "fabric"


def outcome_file(run: RunDirectory) -> Path:
    """The outcome of the run, written by control's container."""
    return run.path / "runtime" / "outcome.json"


def sockets_of(run: RunDirectory) -> Path:
    """The folder of all sockets, outside of containers."""
    return run.path / "runtime" / "sockets"


def slots_of(sockets: Path) -> Path:
    """The lock files, which all learners' containers mount read-only."""
    return sockets / "slots"


def nodes_of(sockets: Path) -> Path:
    """The folder of the nodes' own folders."""
    return folder_of_node(sockets, 0).parent


def folder_of_node(sockets: Path, rank: int) -> Path:
    """The node's own folder of sockets, mounted in its container."""
    return node_socket(sockets, rank).parent
