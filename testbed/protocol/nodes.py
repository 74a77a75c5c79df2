"""What nodes say to control, and what it says to them. Takes messages, gives bytes and back; pure."""

from __future__ import annotations

from typing import Annotated, Union

import msgspec

from testbed.protocol.message import Message, Reader

SLOTS = 5
"""Models that a node may have left to be averaged, before the first of them is; one is for its last round only."""


class Hello(Message, frozen=True):
    """A node's process is there. Who it is, control checks against what it started."""

    rank: int
    pid: int


class Ready(Message, frozen=True):
    """Everything is set up; the node waits for the start."""


class Recorded(Message, frozen=True):
    """A line that the node has just written into its journal."""

    line: bytes


class Idle(Message, frozen=True):
    """The node's own work is done; it lives on to serve others."""


class Left(Message, frozen=True):
    """A copy of the node's model after a round lies in this slot of its own, to be averaged.

    Without a slot none was free: no model of this round is needed any more.
    """

    round: int
    slot: Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)] | None
    t: float


class Overrun(Message, frozen=True):
    """How late computing was in this life so far, in emulated time, and what the node's device threw away."""

    steps: int
    late: int
    worst_late_s: float
    tx_dropped: int
    added_s: float = 0.0
    """By how much all that computed longer than planned has lengthened the node's time."""


class Unable(Message, frozen=True):
    """A node cannot begin, or go on, and why.

    `refused` when it is this machine that denies something, `unwritten` when results cannot be written.
    """

    reason: str
    hint: str = ""
    refused: bool = False
    unwritten: bool = False
    file: str | None = None
    line: int | None = None


FromNode = Union[Hello, Ready, Recorded, Idle, Left, Overrun, Unable]  # noqa: UP007 - msgspec reads it at run time
FROM_NODE: Reader[FromNode] = Reader(FromNode)


class Go(Message, frozen=True):
    """Emulated time begins then."""

    monotonic_s: float


class Halt(Message, frozen=True):
    """The node ends, for this reason."""

    reason: str


class Quiet(Message, frozen=True):
    """Nobody needs to be served any more."""


class Stood(Message, frozen=True):
    """The node was stopped on purpose, from then until then by CLOCK_MONOTONIC: nothing is late because of that."""

    since_s: float
    until_s: float


class Finished(Message, frozen=True):
    """All nodes that have done their work, and whose processes are over: nothing reaches them any more."""

    ranks: tuple[int, ...]


ToNode = Union[Go, Halt, Quiet, Stood, Finished]  # noqa: UP007 - msgspec reads it at run time
TO_NODE: Reader[ToNode] = Reader(ToNode)
