"""What the frames of a run hold: data in segments, or nothing but an acknowledgement.

Captures the packets of some nodes of a live run into files beside its directory, and counts their frames.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from tables import Row

from testbed.cli.live_fabric import ask, live_fabric
from testbed.errors import TestbedError
from testbed.plan.addresses import address
from testbed.protocol.fabric import Capture
from testbed.rundir import RunDirectory

_FILE_HEADER, _RECORD = 24, struct.Struct("=IIII")
_TCP = 6
_FIN, _SYN, _RST = 0x01, 0x02, 0x04
_MTU = 1500


@dataclass
class FrameCounts:
    """Of TCP's frames in one direction."""

    frames: int = 0
    data_frames: int = 0
    segments: int = 0
    """Of all data frames."""
    pure_acks: int = 0
    """Frames that acknowledge and carry nothing."""

    def add(self, packet: bytes) -> None:
        """Counts a frame of TCP over IPv4; others are left out."""
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != _TCP:
            return
        ip_bytes = (packet[0] & 15) * 4
        headers = ip_bytes + (packet[ip_bytes + 12] >> 4) * 4
        payload = int.from_bytes(packet[2:4], "big") - headers
        self.frames += 1
        if payload > 0:
            self.data_frames += 1
            self.segments += -(-payload // (_MTU - headers))
        elif not packet[ip_bytes + 13] & (_FIN | _SYN | _RST):
            self.pure_acks += 1

    def row(self, which: str) -> Row:
        return {
            f"segments_per_data_frame_{which}": round(self.segments / max(1, self.data_frames), 2),
            f"pure_acks_{which}": round(self.pure_acks / max(1, self.frames), 3),
        }


def packets_of(data: bytes) -> Iterator[bytes]:
    """The packets of a file in pcap form, without one that is torn at the end."""
    at = _FILE_HEADER
    while at + _RECORD.size <= len(data):
        size = _RECORD.unpack_from(data, at)[2]
        at += _RECORD.size
        if at + size <= len(data):
            yield data[at : at + size]
        at += size


class Captures:
    """Captures of some nodes of a live run, from now until `end`."""

    def __init__(self, run: RunDirectory, ranks: Sequence[int]) -> None:
        """Raises TestbedError where the run has no fabric or is over."""
        self._files: dict[int, Path] = {}
        with ExitStack() as stack:
            fabric = stack.enter_context(live_fabric(run))
            folder = Path(mkdtemp(dir=run.path.parent))
            for rank in ranks:
                self._files[rank] = folder / f"{rank}.pcap"
                ask(fabric, partial(Capture, rank=rank, path=str(self._files[rank])))
                stack.callback(ask, fabric, partial(Capture, rank=rank))
            self._stack = stack.pop_all()

    def end(self) -> None:
        """The files are complete; may be repeated, and the run may be over."""
        with suppress(TestbedError):
            self._stack.close()

    def row(self) -> Row:
        """What nodes have sent, as the fabric reads it, and what they received, as it writes it."""
        sent, received = FrameCounts(), FrameCounts()
        for rank, path in self._files.items():
            own = socket.inet_aton(address(rank))
            for packet in packets_of(path.read_bytes()):
                (sent if packet[12:16] == own else received).add(packet)
        return sent.row("read") | received.row("written")
