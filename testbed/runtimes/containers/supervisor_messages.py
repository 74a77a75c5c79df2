"""What control tells the first process of a learner's container, and what that one answers. Pure."""

from __future__ import annotations

from typing import Union

from testbed.protocol.message import Message, Reader
from testbed.protocol.zygote import Died, Fork, Forked

ATTACH = "attach"
KILL, PAUSE, RESUME = "kill", "pause", "resume"


class Do(Message, frozen=True):
    """To the learner: kill, pause or resume it; or, to be ready sooner, get the network that it will have."""

    what: str


class Came(Message, frozen=True):
    """The container is there, and waits for its order."""


class Used(Message, frozen=True):
    """Processor time that the learner has used in this life."""

    cpu_s: float


class Paused(Message, frozen=True):
    """It stands still; perhaps while it computes, and then others have one slot less."""

    keeps_slot: bool


ToSupervisor = Union[Fork, Do]  # noqa: UP007 - msgspec reads it at run time
TO_SUPERVISOR: Reader[ToSupervisor] = Reader(ToSupervisor)
FromSupervisor = Union[Came, Forked, Died, Used, Paused]  # noqa: UP007 - msgspec reads it at run time
FROM_SUPERVISOR: Reader[FromSupervisor] = Reader(FromSupervisor)


def that_it_lives(packet: bytes) -> bool:
    """Whether control says this, rather than anything else; raises ProtocolError for what it never says."""
    return isinstance(TO_SUPERVISOR.read(packet), Fork)
