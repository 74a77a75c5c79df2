"""Messages between nodes and control. Takes messages, gives bytes and back; pure."""

from __future__ import annotations

from typing import Annotated, Union

import msgspec

from testbed.protocol.message import Message, Reader

SLOTS = 5
"""Models that a node may have waiting to be averaged; one slot is for its last round only."""


class Hello(Message, frozen=True):
    """A node's process has started. Control checks its identity against the processes that it started."""

    rank: int
    pid: int


class Listening(Message, frozen=True):
    """The node accepts connections; before it makes its own, it waits until its peers do, too."""


class Ready(Message, frozen=True):
    """The node is set up and waits for the start."""


class Recorded(Message, frozen=True):
    """The node has written this line to its journal."""

    line: bytes


class Idle(Message, frozen=True):
    """The node's own work is done; it goes on to serve others."""


class Left(Message, frozen=True):
    """A copy of the node's model after a round lies in this slot of its own, to be averaged.

    Without a slot none was free: no model of this round is needed any more.
    """

    round: int
    slot: Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)] | None
    t: float


class Overrun(Message, frozen=True):
    """Lateness of computing in this life so far, in emulated time, and packets dropped by the node's device."""

    steps: int
    late: int
    worst_late_s: float
    tx_dropped: int
    added_s: float = 0.0
    """Time added to the node's run by computing longer than planned."""


class Unable(Message, frozen=True):
    """A node cannot begin or go on, for this reason.

    `refused`: this machine denies something. `unwritten`: results cannot be written.
    """

    reason: str
    hint: str = ""
    refused: bool = False
    unwritten: bool = False
    file: str | None = None
    line: int | None = None


FromNode = Union[Hello, Listening, Ready, Recorded, Idle, Left, Overrun, Unable]  # noqa: UP007 - msgspec reads it at run time
FROM_NODE: Reader[FromNode] = Reader(FromNode)


class Connect(Message, frozen=True):
    """All nodes accept connections. An attempt before that would be repeated only after a second or more."""


class Go(Message, frozen=True):
    """Emulated time begins at this instant."""

    monotonic_s: float


class Halt(Message, frozen=True):
    """The node must end, for this reason."""

    reason: str


class Quiet(Message, frozen=True):
    """No node needs to be served any more."""


class Stood(Message, frozen=True):
    """The node was paused on purpose between these times of CLOCK_MONOTONIC, which does not count as lateness."""

    since_s: float
    until_s: float


class Finished(Message, frozen=True):
    """All nodes that are done and whose processes have ended: messages no longer reach them."""

    ranks: tuple[int, ...]


ToNode = Union[Connect, Go, Halt, Quiet, Stood, Finished]  # noqa: UP007 - msgspec reads it at run time
TO_NODE: Reader[ToNode] = Reader(ToNode)
