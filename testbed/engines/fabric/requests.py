"""What is asked of a fabric, and what comes of it.

Takes requests and gives them numbers, takes the fabric's packets and tells its answers from what it says by itself;
touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.errors import CouldNotStart
from testbed.protocol.fabric import (
    FROM_FABRIC,
    Applied,
    Denied,
    Done,
    FabricStatus,
    Links,
    NodeAttached,
    NodeDetached,
    NodeRefused,
    ToFabric,
)

Note = Applied | NodeAttached | NodeDetached | NodeRefused
Answer = Done | Denied | Links | FabricStatus


class FabricLost(CouldNotStart):
    """The fabric does not answer, or is not there any more."""


class Requests:
    """Of one connection."""

    def __init__(self, told: Callable[[Note], None]) -> None:
        """`told` hears what the fabric says by itself."""
        self._told = told
        self._number = 0

    def numbered(self, make: Callable[[int], ToFabric]) -> ToFabric:
        """The request that is made with the next number, which its answer will have."""
        self._number += 1
        return make(self._number)

    def answer_in(self, packet: bytes) -> Answer | None:
        """None when it is not an answer. Raises ProtocolError when it is nothing that a fabric says."""
        said = FROM_FABRIC.read(packet)
        if isinstance(said, Note):
            self._told(said)
            return None
        return said
