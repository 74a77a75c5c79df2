"""Where the sockets of a run lie, as its containers mount them: in the run directory, or on volumes of the Engine.

Takes a plan's ranks, gives mounts; pure. Either way a learner's container sees its own sockets and no others, and only
reads the files by which learners share the processors.
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
    """Where somebody wants them to lie."""

    AUTO = "auto"
    """In the run directory, unless they do not reach over from there."""
    FOLDER = "folder"
    """There, or not at all."""
    VOLUME = "volume"


@dataclass(frozen=True)
class Volume:
    """One of the Engine's, made by it with the first container that mounts it."""

    name: str


@dataclass(frozen=True)
class Mount:
    """A folder or file of the host's, or a volume."""

    outside: Path | Volume
    inside: Path
    read_only: bool = False


class SocketPlaces(Protocol):
    """Of one run."""

    def of_all(self) -> tuple[Mount, ...]:
        """For control and the fabric."""

    def of_node(self, rank: int) -> tuple[Mount, ...]:
        """What only this node sees of them."""


@dataclass(frozen=True)
class InFolder:
    """In the run directory, where commands find them, too."""

    run: RunDirectory

    def of_all(self) -> tuple[Mount, ...]:
        return (Mount(sockets_of(self.run), _INSIDE.sockets),)

    def of_node(self, rank: int) -> tuple[Mount, ...]:
        return _of_node(folder_of_node(sockets_of(self.run), rank), slots_of(sockets_of(self.run)))


class OnVolumes:
    """One volume for each node, one for what computing nodes lock, one for the rest.

    Nobody can mount a part of a volume, on Engines that people have; so who sees all of them sees them put together.
    """

    def __init__(self, run_id: str, ranks: Sequence[int]) -> None:
        """The names are new: the Engine would take whatever volume has that name already, whoever's it is."""
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
