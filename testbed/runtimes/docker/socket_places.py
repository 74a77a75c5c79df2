"""Where a run's sockets are, and how containers mount them: in the run directory, or on Docker volumes.

Takes a plan's ranks, gives mounts; pure. A learner's container sees only its own sockets. It can read, but not write,
the lock files by which learners share the processors.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import ContainerPaths, folder_of_node, slots_of, sockets_of

_INSIDE = ContainerPaths()


class Sockets(StrEnum):
    """The values of `--sockets`."""

    AUTO = "auto"
    """In the run directory if sockets can be reached there, else on volumes."""
    FOLDER = "folder"
    """In the run directory, or the run is refused."""
    VOLUME = "volume"


@dataclass(frozen=True)
class Volume:
    """A Docker volume, created with the first container that mounts it."""

    name: str


@dataclass(frozen=True)
class Mount:
    """A mount of a folder or file of the host, or of a volume."""

    outside: Path | Volume
    inside: Path
    read_only: bool = False


class SocketPlaces(Protocol):
    """The places of one run's sockets."""

    def of_all(self) -> tuple[Mount, ...]:
        """The mounts of control and the fabric, which see all sockets."""

    def of_node(self, rank: int) -> tuple[Mount, ...]:
        """The mounts of one node, which sees only its own sockets."""


@dataclass(frozen=True)
class InFolder:
    """Sockets in the run directory, where commands can reach them."""

    run: RunDirectory

    def of_all(self) -> tuple[Mount, ...]:
        return (Mount(sockets_of(self.run), _INSIDE.sockets),)

    def of_node(self, rank: int) -> tuple[Mount, ...]:
        return _of_node(folder_of_node(sockets_of(self.run), rank), slots_of(sockets_of(self.run)))


class OnVolumes:
    """Sockets on volumes: one volume for each node, one for the lock files, one for the rest.

    Common versions of Docker cannot mount a part of a volume, so control and the fabric mount all of them.
    """

    def __init__(self, run_id: str, ranks: Sequence[int]) -> None:
        """Takes random names: Docker would reuse any existing volume of the same name."""
        self._name = f"testbed-{run_id}-{secrets.token_hex(4)}"
        self._ranks = tuple(ranks)

    def of_all(self) -> tuple[Mount, ...]:
        sockets = _INSIDE.sockets
        return (
            Mount(self._volume("sockets"), sockets),
            Mount(self._volume("slots"), slots_of(sockets)),
            *(Mount(self._of_rank(rank), folder_of_node(sockets, rank)) for rank in self._ranks),
        )

    def of_node(self, rank: int) -> tuple[Mount, ...]:
        return _of_node(self._of_rank(rank), self._volume("slots"))

    def _of_rank(self, rank: int) -> Volume:
        return self._volume(f"r{rank}")

    def _volume(self, what: str) -> Volume:
        return Volume(f"{self._name}-{what}")


def _of_node(own: Path | Volume, slots: Path | Volume) -> tuple[Mount, ...]:
    return Mount(own, _INSIDE.sockets), Mount(slots, _INSIDE.slots, read_only=True)
