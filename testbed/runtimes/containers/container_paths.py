"""Where everything lies inside a container: the same in each, whatever started it. Takes a root, gives paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.engines.fabric.sockets import node_socket
from testbed.rundir import NodeDirectory, RunDirectory
from testbed.runtimes.containers import NODE, ROOT, SOCKETS


@dataclass(frozen=True)
class ContainerPaths:
    """Of any container of a run; each has only some of these."""

    root: Path = Path(ROOT)

    @property
    def sockets(self) -> Path:
        """A learner's own folder; of control and the fabric, that of all."""
        return self.root / SOCKETS

    @property
    def slots(self) -> Path:
        """What a learner locks while it computes: the same files for all of them, and nobody can write to them."""
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
        """Where data sets are kept."""
        return self.root / "data"

    @property
    def fabric(self) -> Path:
        """The folder with the fabric's configuration."""
        return fabric_folder(self.run)


def fabric_folder(run: RunDirectory) -> Path:
    return run.path / "runtime" / "fabric"


def outcome_file(run: RunDirectory) -> Path:
    """Where control's container says how the run ended."""
    return run.path / "runtime" / "outcome.json"


def sockets_of(run: RunDirectory) -> Path:
    """Where they lie outside."""
    return run.path / "runtime" / "sockets"


def slots_of(sockets: Path) -> Path:
    """What of them all learners' containers mount, to read."""
    return sockets / "slots"


def nodes_of(sockets: Path) -> Path:
    """What has the nodes' own folders, by rank."""
    return folder_of_node(sockets, 0).parent


def folder_of_node(sockets: Path, rank: int) -> Path:
    """What of them is mounted in one node's container."""
    return node_socket(sockets, rank).parent
