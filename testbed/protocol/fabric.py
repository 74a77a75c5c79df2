"""What nodes and control say to the fabric, and what it says to them. Takes messages, gives bytes and back; pure."""

from __future__ import annotations

from typing import Union

import msgspec

from testbed.protocol.message import Message, Reader

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
    """A change of links, bridges or partitions in the topology's timeline is in force; times are emulated seconds."""

    change: str
    """In words, such as `link a -> hub: latency 20ms`."""
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
