"""Messages between control and the zygote that nodes are forked from. Takes messages, gives bytes and back; pure."""

from __future__ import annotations

from typing import Union

from testbed.protocol.message import Message, Reader
from testbed.protocol.nodes import Unable


class Fork(Message, frozen=True):
    """Start this node; everything else that it needs is in the folder of the run."""

    rank: int
    rejoin: str | None = None
    first_round: int = 0
    absent: tuple[int, ...] = ()
    """Ranks that join later: the node does not wait for them."""


class EvaluateAverage(Message, frozen=True):
    """Average the models that these ranks left in these slots, evaluate the average, and clear the slots."""

    round: int
    ranks: tuple[int, ...]
    slots: tuple[int, ...]


class Discard(Message, frozen=True):
    """Clear the slots."""

    ranks: tuple[int, ...]
    slots: tuple[int, ...]


class AverageEvaluated(Message, frozen=True):
    """How good the average is; or why that is not known."""

    round: int
    accuracy: float | None = None
    loss: float | None = None
    consensus_distance: float = 0.0
    problem: str | None = None


class Forked(Message, frozen=True):
    rank: int
    pid: int


class Died(Message, frozen=True):
    """A node's process has ended; `status` is the operating system's."""

    rank: int
    pid: int
    status: int


class Warm(Message, frozen=True):
    """The zygote is ready to fork."""


FromZygote = Union[Warm, Forked, Died, AverageEvaluated, Unable]  # noqa: UP007 - msgspec reads it at run time
FROM_ZYGOTE: Reader[FromZygote] = Reader(FromZygote)
ToZygote = Union[Fork, EvaluateAverage, Discard]  # noqa: UP007 - msgspec reads it at run time
TO_ZYGOTE: Reader[ToZygote] = Reader(ToZygote)
