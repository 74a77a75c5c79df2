"""What nodes, control and engines say to each other.

Takes messages, gives bytes and back; touches nothing. Every message is one packet of a UNIX SOCK_SEQPACKET socket, at
most `MAX_MESSAGE_BYTES` long. None of this crosses the emulated network, and none of it is counted.

Seconds called `..._s` without more are emulated seconds since the start barrier; those called `monotonic_s` are the
host's CLOCK_MONOTONIC, which everybody on a host shares.
"""

from __future__ import annotations

import errno
from functools import cached_property
from typing import Annotated, Generic, TypeVar, Union

import msgspec

from testbed.first_words import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES  # it is known by this name here

OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why nobody can be let in: whoever waits stays there, and would be announced again and again."""
SLOTS = 5
"""Models that a node may have left to be averaged, before the first of them is; one is for its last round only."""

_Kind = TypeVar("_Kind")


class ProtocolError(ValueError):
    """These bytes are no message of the kind expected."""


class Message(
    msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of all messages; the field `type` tells them apart."""


class Reader(Generic[_Kind]):
    """Reads one direction of a conversation."""

    def __init__(self, kind: object) -> None:
        self._kind = kind

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[_Kind]:
        """Made when it is needed first: no process is in all conversations."""
        return msgspec.msgpack.Decoder(self._kind)

    def read(self, data: bytes) -> _Kind:
        """Raises ProtocolError for whatever is not a message of this direction."""
        if len(data) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message has at most {MAX_MESSAGE_BYTES} bytes")
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise ProtocolError(str(problem)) from None


_ENCODER = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    data = _ENCODER.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"{type(message).__name__} would have {len(data)} bytes, at most {MAX_MESSAGE_BYTES}")
    return data


# -- a node to the fabric, over the socket that only this node has -----------------------------------------------------


class Attach(Message, frozen=True):
    """Comes with the descriptor of the node's TUN device. Who the node is, the socket says."""


class Attached(Message, frozen=True):
    """The fabric carries the node's packets now."""


class Refused(Message, frozen=True):
    """It does not, and why."""

    reason: str


FROM_NODE_TO_FABRIC: Reader[Attach] = Reader(Attach)
AttachAnswer = Union[Attached, Refused]  # noqa: UP007 - msgspec reads it at run time
FROM_FABRIC_TO_NODE: Reader[AttachAnswer] = Reader(AttachAnswer)


# -- control to the fabric ---------------------------------------------------------------------------------------------


class Request(Message, frozen=True):
    """Base of what is asked of the fabric; its answer has the same number."""

    number: int


class Begin(Request, frozen=True):
    """The start barrier is, or will be, passed then: the timeline runs from there."""

    monotonic_s: float


class SetLink(Request, frozen=True):
    """From now on links have these properties, until reset; None leaves one as it is. Infinity is no limit."""

    origin: str
    """A bridge, or a selector of nodes."""
    dest: str
    both: bool = True
    """Both directions."""
    latency_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None
    rate_bps: float | None = None
    queue_ms: float | None = None
    queue_bytes: float | None = None
    background_bps: float | None = None
    up: bool | None = None


class ResetLink(Request, frozen=True):
    """Links are again what the topology and its timeline make them; all links when no ends are given."""

    origin: str | None = None
    dest: str | None = None
    both: bool = True


class HoldDown(Request, frozen=True):
    """Links are down until they are let go; `SetLink` of whether they are up, and `ResetLink`, end it before."""

    origin: str
    dest: str
    both: bool = True


class LetGo(Request, frozen=True):
    """Links are again what they would be had nobody held them down."""

    origin: str
    dest: str
    both: bool = True


class ShowLink(Request, frozen=True):
    """What links are like now."""

    origin: str
    dest: str
    both: bool = True


class Cut(Request, frozen=True):
    """Nothing leaves or reaches these nodes any more."""

    ranks: tuple[int, ...]


class Uncut(Request, frozen=True):
    """Their packets are carried again."""

    ranks: tuple[int, ...]


class Detach(Request, frozen=True):
    """The descriptors of these nodes are closed: with a dead node, that ends its namespace."""

    ranks: tuple[int, ...]


class Partition(Request, frozen=True):
    """Nodes of different groups cannot reach each other, until healed."""

    name: str
    groups: tuple[tuple[int, ...], ...]


class Heal(Request, frozen=True):
    """Ends the partition of this name."""

    name: str


class Capture(Request, frozen=True):
    """Packets as a node sees them go to a file, in pcap form; None ends that."""

    rank: int
    path: str | None = None


class Watch(Request, frozen=True):
    """From now on this connection is told what happens: `Applied`, `NodeAttached`, `NodeDetached`."""

    lead: bool = False
    """The fabric ends when this connection does: whoever leads the run has died."""


class GetStatus(Request, frozen=True):
    """How the fabric is."""


class Quit(Request, frozen=True):
    """The fabric ends, its files written."""


ToFabric = Union[  # noqa: UP007 - msgspec reads it at run time
    Begin,
    SetLink,
    ResetLink,
    HoldDown,
    LetGo,
    ShowLink,
    Cut,
    Uncut,
    Detach,
    Partition,
    Heal,
    Capture,
    Watch,
    GetStatus,
    Quit,
]
TO_FABRIC: Reader[ToFabric] = Reader(ToFabric)


# -- the fabric to control ---------------------------------------------------------------------------------------------


class Done(Message, frozen=True):
    """It is so."""

    number: int
    monotonic_s: float
    """Since when."""


class Denied(Message, frozen=True):
    """It cannot be, and why; nothing has changed."""

    number: int
    reason: str


class LinkState(msgspec.Struct, frozen=True):
    """One directed link, now."""

    origin: str
    dest: str
    latency_ms: float
    jitter_ms: float
    loss: float
    rate_bps: float
    queue_ms: float
    queue_bytes: float
    background_bps: float
    up: bool
    changed: bool
    """Set by hand."""


class Links(Message, frozen=True):
    """Answer to `ShowLink`."""

    number: int
    links: tuple[LinkState, ...]
    left_out: int = 0
    """How many more there are than fit."""


class Lateness(msgspec.Struct, frozen=True):
    """How long after they were due packets were written, in real time."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class FabricStatus(Message, frozen=True):
    """Answer to `GetStatus`; what is known by link and node is in the engine's files."""

    number: int
    t: float | None
    """None before the start."""
    attached: int
    cut: tuple[int, ...]
    packets: int
    """Written to nodes so far."""
    bytes: int
    dropped: dict[str, int]
    """By cause."""
    held_packets: int
    held_bytes: int
    lateness: Lateness
    cpu_s: float
    overloaded: tuple[str, ...]
    """Why, in words; nothing when all is well."""


class Applied(Message, frozen=True):
    """A change of the topology's timeline is in force."""

    what: str
    detail: str
    planned_s: float
    applied_s: float


class NodeAttached(Message, frozen=True):
    rank: int
    again: bool
    """It replaces an older descriptor of the same node."""


class NodeDetached(Message, frozen=True):
    """Its device is closed here."""

    rank: int
    why: str
    was_lost: bool = False
    """Nobody has asked for it, nor given another one."""


class NodeRefused(Message, frozen=True):
    """What a node handed over was no device, or what it said no message; told the first time."""

    rank: int
    why: str
    t: float
    """Emulated seconds; 0 before the start."""


FromFabric = Union[  # noqa: UP007 - msgspec reads it at run time
    Done, Denied, Links, FabricStatus, Applied, NodeAttached, NodeDetached, NodeRefused
]
FROM_FABRIC: Reader[FromFabric] = Reader(FromFabric)


# -- a node to control, and back ---------------------------------------------------------------------------------------


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
    """A copy of its model after a round lies on the shelf that all nodes share, in this slot of its own.

    Without a slot there was no room for one: nobody's model of this round is needed any more.
    """

    round: int
    slot: Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)] | None
    t: float


class Overrun(Message, frozen=True):
    """How often computing was late in this life so far, how late at worst, and what the node's device threw away."""

    steps: int
    late: int
    worst_late_s: float
    tx_dropped: int


class Unable(Message, frozen=True):
    """What was to be a node cannot begin, and why; `refused` when it is this machine that denies something."""

    reason: str
    hint: str = ""
    refused: bool = False
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


# -- control to the zygote, and back -----------------------------------------------------------------------------------


class Fork(Message, frozen=True):
    """Start this node; what else it must know is in the folder of the run."""

    rank: int
    rejoin: str | None = None
    first_round: int = 0
    absent: tuple[int, ...] = ()
    """Ranks of those that join later: nobody waits for them."""


class Judge(Message, frozen=True):
    """Average the models that these ranks left in these slots, try the average, and clear the slots."""

    round: int
    ranks: tuple[int, ...]
    slots: tuple[int, ...]


class Discard(Message, frozen=True):
    """Clear the slots."""

    ranks: tuple[int, ...]
    slots: tuple[int, ...]


class Judged(Message, frozen=True):
    """How good the average is; or why nobody knows."""

    round: int
    accuracy: float | None = None
    loss: float | None = None
    consensus_distance: float = 0.0
    problem: str | None = None


class Forked(Message, frozen=True):
    rank: int
    pid: int


class Died(Message, frozen=True):
    """A node's process is over: `status` as the operating system gives it."""

    rank: int
    pid: int
    status: int


class Warm(Message, frozen=True):
    """The zygote is ready to fork."""


FromZygote = Union[Warm, Forked, Died, Judged, Unable]  # noqa: UP007 - msgspec reads it at run time
FROM_ZYGOTE: Reader[FromZygote] = Reader(FromZygote)
ToZygote = Union[Fork, Judge, Discard]  # noqa: UP007 - msgspec reads it at run time
TO_ZYGOTE: Reader[ToZygote] = Reader(ToZygote)
