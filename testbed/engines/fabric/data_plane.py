"""The seam between the fabric and its data plane: what reads frames, walks them over the links and writes them.

A data plane owns the nodes' devices and every packet under way. The fabric is the control plane: configuration,
attaching, changes and events, reports, health and policy. It reaches the data plane by `DataPlane` alone, and takes the
implementation from `planes.PLANES`. Given the same frames at the same times, every implementation drops and delays the
same packets: docs/internals/random-numbers.md.

All times are seconds of the host's monotonic clock. A *port* is a node with an address, at its rank's place in
`Setup.addresses`. What runs behind it, a learner or any other program, makes no difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from testbed.engines.fabric.delays import DelayFigures, DelayLimits
from testbed.network.graph import Network
from testbed.network.packets import Routes, Snapshot

BACKLOG = "backlog"
"""Why frames are not carried while too many are on their way."""
WRITE = "write "
"""How causes begin for which a device refused a packet."""
MOST_HELD_BYTES = 1 << 30
"""Of memory for frames on their way; a network that holds more is not carried faithfully, and the run is overloaded."""
_SMALLEST_BLOCK_BYTES, _LARGE_BYTES, _LARGEST_BLOCK_BYTES = 64, 32_768, 66_048
_HELD_SEGMENT_BYTES, _HELD_PIECE_BYTES = 640, 64


def held_bytes(frame_bytes: int, packets: int) -> int:
    """What a frame on its way counts as, in every data plane: a little more than the memory that it takes in any."""
    block = _LARGEST_BLOCK_BYTES
    if frame_bytes <= _LARGE_BYTES:
        block = max(_SMALLEST_BLOCK_BYTES, 1 << (frame_bytes - 1).bit_length())
    return block + _HELD_SEGMENT_BYTES + _HELD_PIECE_BYTES * packets


class Setup(NamedTuple):
    """What a data plane is made of."""

    network: Network
    addresses: Sequence[bytes]
    """IPv4, by port."""
    cut: Collection[int]
    """Ports that are cut off at the start."""
    seed: int
    mtu: int
    in_order: bool
    """Jitter keeps a flow in order."""
    time_scale: float
    limits: DelayLimits
    wakeup: int
    """A descriptor that is readable when the control plane has something to do."""
    most_held_bytes: int = MOST_HELD_BYTES
    """A frame that comes while those on their way take more memory than that is dropped, for BACKLOG."""
    most_held_of_one_bytes: int = MOST_HELD_BYTES // 4
    """The same for frames of its origin, so that one node that floods the network leaves room for the others."""
    most_captured_bytes: int = 4 << 30
    """Of one capture: one that is forgotten must not fill the disk."""

    @property
    def capture_is_full(self) -> str:
        return f"it has {self.most_captured_bytes} bytes, the most that one may have"


class LostDevice(NamedTuple):
    """A port whose device cannot be read any more; it is detached."""

    port: int
    why: str


class UnderWay(NamedTuple):
    """A frame that another host's fabric has carried up to a link of this one."""

    origin: int
    data: bytes
    """As the origin's device gave it."""
    link: int
    """Which of the network's links it reaches next."""
    pieces: Sequence[int]
    """Which of its packets are still under way."""
    times_s: Sequence[float]
    """When each of them reaches the link; those in the past reach it now."""


class PortFigures(NamedTuple):
    """What a port has counted in all lives of its node."""

    is_attached: bool
    frames_in: int
    """Read; a super-segment is one."""
    packets_out: int
    """Written."""
    bytes_out: int
    unfit: Mapping[str, int]
    """Frames that were not carried, by cause."""
    failed: Mapping[str, int]
    """Reads and packets to write that failed, by cause: `absent`, or `read` or `write` and the name of the error."""

    @property
    def unwritten(self) -> int:
        """Packets that the device refused though there was one."""
        return sum(count for why, count in self.failed.items() if why.startswith(WRITE))


class Figures(NamedTuple):
    """How a data plane is doing."""

    ports: Sequence[PortFigures]
    held_frames: int
    """On their way."""
    held_bytes: int
    """Of memory for them, as `held_bytes` counts it."""
    delays: DelayFigures
    """Since `restart_delays`."""


class DataPlane(Protocol):
    """Carries packets between ports."""

    def attach(self, port: int, descriptor: int) -> bool:
        """Takes over a TUN device; tells whether it replaces one. Raises NotATun, with the descriptor closed."""
        ...

    def detach(self, port: int) -> bool:
        """Closes the port's device, if there is one; tells whether there was."""
        ...

    def change(self, at_s: float, network: Network, routes: Routes | None = None) -> float:
        """The links have other properties from then on; packets in their queues, too. Gives since when.

        Later than asked for only where packets have been carried past that time. `routes` of the new network may have
        been prepared.
        """
        ...

    def cut(self, at_s: float, ports: Collection[int]) -> float:
        """Nothing leaves or reaches these ports from then on; what has left them travels on. Gives since when."""
        ...

    def uncut(self, at_s: float, ports: Collection[int]) -> float: ...

    def run(self, until_s: float) -> Sequence[LostDevice]:
        """Carries packets until then, until `Setup.wakeup` is readable, or until a device is lost.

        Ports are read in turn, a few frames of each. A change at `until_s` is exact: nothing is carried past it here,
        but for frames that were read later.
        """
        ...

    def take(self, frame: UnderWay) -> bool:
        """Carries on what another host's fabric has begun; tells whether there is a way."""
        ...

    def begin_capture(self, port: int, path: Path) -> None:
        """Every packet that the port reads or writes goes to a file in pcap form. Raises OSError."""
        ...

    def end_capture(self, port: int) -> str | None:
        """The file is complete; tells why it lacks packets, if it does."""
        ...

    def counters(self) -> Snapshot:
        """What links and pairs have carried and dropped so far. To be called once a second: the longest waits are those
        since the last call, captures are flushed, and frames that were dropped on their way give back their memory."""
        ...

    def figures(self) -> Figures: ...

    def restart_delays(self) -> None:
        """Delays count from now on."""
        ...

    def close(self) -> None:
        """All ports lose their devices, and captures end; nothing more happens the second time."""
        ...
