"""Messages of nodes and control to the fabric, and its messages to them. Takes messages, gives bytes and back; pure."""

from __future__ import annotations

from typing import Union

import msgspec

from testbed.protocol.message import Message, Reader

# -- a node to the fabric, over the node's own socket ------------------------------------------------------------------


class Attach(Message, frozen=True):
    """Comes with the descriptor of the node's TUN device. The socket identifies the node."""


class Attached(Message, frozen=True):
    """The fabric now carries the node's packets."""


class Refused(Message, frozen=True):
    """The fabric does not carry the node's packets, for this reason."""

    reason: str


FROM_NODE_TO_FABRIC: Reader[Attach] = Reader(Attach)
AttachAnswer = Union[Attached, Refused]  # noqa: UP007 - msgspec reads it at run time
FROM_FABRIC_TO_NODE: Reader[AttachAnswer] = Reader(AttachAnswer)


# -- control to the fabric ---------------------------------------------------------------------------------------------


class Request(Message, frozen=True):
    """Base of requests to the fabric; the answer has the same number."""

    number: int


class Begin(Request, frozen=True):
    """The timeline starts at this time, past or future, when the start barrier is passed."""

    monotonic_s: float


class SetLink(Request, frozen=True):
    """Sets properties of links until they are reset; None leaves a property as it is, infinity is no limit."""

    origin: str
    """A bridge, or a selector of nodes."""
    dest: str
    both: bool = True
    """Applies to both directions."""
    latency_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None
    rate_bps: float | None = None
    queue_ms: float | None = None
    queue_bytes: float | None = None
    background_bps: float | None = None
    up: bool | None = None


class ResetLink(Request, frozen=True):
    """Resets links to the topology and its timeline; all links when no ends are given."""

    origin: str | None = None
    dest: str | None = None
    both: bool = True


class HoldDown(Request, frozen=True):
    """Holds links down until `LetGo`; `SetLink` with `up`, and `ResetLink`, end it earlier."""

    origin: str
    dest: str
    both: bool = True


class LetGo(Request, frozen=True):
    """Ends `HoldDown`: links are as they would be without it."""

    origin: str
    dest: str
    both: bool = True


class ShowLink(Request, frozen=True):
    """Asks for the current state of links."""

    origin: str
    dest: str
    both: bool = True


class Cut(Request, frozen=True):
    """Drops all packets to and from these nodes."""

    ranks: tuple[int, ...]


class Uncut(Request, frozen=True):
    """Ends `Cut` for these nodes."""

    ranks: tuple[int, ...]


class Detach(Request, frozen=True):
    """Closes the descriptors of these nodes, which ends the namespace of a dead node."""

    ranks: tuple[int, ...]


class Partition(Request, frozen=True):
    """Drops packets between nodes of different groups, until `Heal`."""

    name: str
    groups: tuple[tuple[int, ...], ...]


class Heal(Request, frozen=True):
    """Ends the partition of this name."""

    name: str


class Capture(Request, frozen=True):
    """Writes the packets that a node sees to a pcap file; None ends that."""

    rank: int
    path: str | None = None


class Watch(Request, frozen=True):
    """Subscribes this connection to `Applied`, `NodeAttached`, `NodeDetached` and `NodeRefused`."""

    lead: bool = False
    """Ends the fabric when this connection closes, because the process that leads the run has died."""


class GetStatus(Request, frozen=True):
    """Asks for the fabric's state."""


class Quit(Request, frozen=True):
    """Ends the fabric after it has written its files."""


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
    """Success reply."""

    number: int
    monotonic_s: float
    """When the change took effect."""


class Denied(Message, frozen=True):
    """Failure reply with its reason; nothing has changed."""

    number: int
    reason: str


class LinkState(msgspec.Struct, frozen=True):
    """Current state of a directed link."""

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
    """Whether it differs from the topology by a live change."""


class Links(Message, frozen=True):
    """Answer to `ShowLink`."""

    number: int
    links: tuple[LinkState, ...]
    left_out: int = 0
    """Number of further links that did not fit."""


class Lateness(msgspec.Struct, frozen=True):
    """Delay of packets beyond their due time, in real time."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class FabricStatus(Message, frozen=True):
    """Answer to `GetStatus`; counters by link and node are in the engine's files."""

    number: int
    t: float | None
    """None before the start."""
    attached: int
    cut: tuple[int, ...]
    packets: int
    """Packets written to nodes so far."""
    bytes: int
    dropped: dict[str, int]
    """Packets by cause of the drop."""
    held_packets: int
    held_bytes: int
    lateness: Lateness
    cpu_s: float
    overloaded: tuple[str, ...]
    """Reasons of an overload; empty when there is none."""


class Applied(Message, frozen=True):
    """A change of links, bridges or partitions in the topology's timeline is in force; times are emulated seconds."""

    change: str
    """In words, such as `link a -> hub: latency 20ms`."""
    planned_s: float
    applied_s: float


class NodeAttached(Message, frozen=True):
    rank: int
    again: bool
    """Whether it replaces an older descriptor of the same node."""


class NodeDetached(Message, frozen=True):
    """The fabric has closed the node's device."""

    rank: int
    why: str
    was_lost: bool = False
    """Whether it was lost rather than detached on request or replaced."""


class NodeRefused(Message, frozen=True):
    """A node sent something that is no device or no message; reported the first time only."""

    rank: int
    why: str
    t: float
    """Emulated seconds; 0 before the start."""


FromFabric = Union[  # noqa: UP007 - msgspec reads it at run time
    Done, Denied, Links, FabricStatus, Applied, NodeAttached, NodeDetached, NodeRefused
]
FROM_FABRIC: Reader[FromFabric] = Reader(FromFabric)
