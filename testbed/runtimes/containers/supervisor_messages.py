"""Messages between control and the supervisor of a learner's container. Pure."""

from __future__ import annotations

from typing import Union

from testbed.protocol.message import Message, Reader
from testbed.protocol.zygote import Died, Fork, Forked

ATTACH = "attach"
KILL, PAUSE, RESUME = "kill", "pause", "resume"


class Do(Message, frozen=True):
    """An order of control: kill, pause or resume the learner; or create the network before the learner starts."""

    what: str


class Came(Message, frozen=True):
    """The container has started, and waits for an order."""


class Used(Message, frozen=True):
    """The processor time of the learner in this life."""

    cpu_s: float


class Paused(Message, frozen=True):
    """The learner is paused; `keeps_slot` if while it computes, which leaves other learners one slot less."""

    keeps_slot: bool


ToSupervisor = Union[Fork, Do]  # noqa: UP007 - msgspec reads it at run time
TO_SUPERVISOR: Reader[ToSupervisor] = Reader(ToSupervisor)
FromSupervisor = Union[Came, Forked, Died, Used, Paused]  # noqa: UP007 - msgspec reads it at run time
FROM_SUPERVISOR: Reader[FromSupervisor] = Reader(FromSupervisor)


def that_it_lives(packet: bytes) -> bool:
    """Whether the packet is an order to start the learner; raises ProtocolError for an invalid packet."""
    return isinstance(TO_SUPERVISOR.read(packet), Fork)
