"""The nodes' TUN devices: one descriptor for each node that is attached.

Takes descriptors, gives and takes frames; touches the descriptors. No read or write ever waits, whatever the node does
to the open file that it shares with the fabric: every call says so itself (RWF_NOWAIT), O_NONBLOCK is not relied on.

Kernels before 6.4 know no such calls of TUN devices. There O_NONBLOCK is set anew before each call, and a device is
read only when the kernel has said that it has something: once for each event, and a look (`intake`) asks before each of
its reads. A node that takes the flag away in just that moment, and reads its own packets, makes the fabric wait for it,
and control ends the run then.
"""

from __future__ import annotations

import errno
import math
import os
import select
import sys
from collections import Counter
from dataclasses import dataclass, field

from testbed.engines.fabric.devices import close_aside, close_together
from testbed.engines.tun import VNET_HEADER_BYTES

UNSURE_S = 0.00025
"""Frames of a fabric that keeps up are taken to have waited for too long by no more than that, and a turn."""
_LARGEST_FRAME = VNET_HEADER_BYTES + 65_535


@dataclass(slots=True)
class Port:
    """A node's end, as long as it is attached, and what it has counted in all its lives."""

    rank: int
    descriptor: int = -1
    packets_out: int = 0
    """Written to the node."""
    bytes_out: int = 0
    frames_in: int = 0
    """Read from the node; a super-segment is one."""
    turn: int = -1
    """Of those in which it had something to read, the last."""
    since_s: float = 0.0
    """When it last had nothing to read, by the host's clock; what is read now cannot have waited longer."""
    look_after_s: float = UNSURE_S
    """For so long it may have something to read, in turn after turn, until it is looked into (`intake`)."""
    longest_s: float = math.inf
    """For how long what is read now is taken to have waited at most; negative while that is not known."""
    failed: Counter[str] = field(default_factory=Counter)
    """Why frames could not be written or read, by the name of the error."""

    def was_empty(self, at_s: float) -> None:
        """It had nothing to read."""
        self.since_s, self.look_after_s, self.longest_s = at_s, UNSURE_S, math.inf

    @property
    def is_attached(self) -> bool:
        return self.descriptor >= 0


class Ports:
    """All nodes' ends, by rank."""

    def __init__(self, count: int) -> None:
        self.ports = [Port(rank) for rank in range(count)]
        self._buffer = bytearray(_LARGEST_FRAME)
        self._view = memoryview(self._buffer)
        self._into = [self._buffer]
        self.calls_say_so = True
        """That they do not wait; False as soon as this kernel has said that it knows no such calls."""

    def attach(self, rank: int, descriptor: int) -> Port:
        """Takes over a descriptor that was made fit."""
        port = self.ports[rank]
        port.descriptor = descriptor
        return port

    def detach(self, rank: int) -> None:
        port = self.ports[rank]
        if port.is_attached:
            close_aside(port.descriptor)
            port.descriptor = -1

    def is_readable(self, port: Port) -> bool:
        """Whether the device has something to read now; to be asked where calls cannot say that they do not wait."""
        asked = select.poll()
        asked.register(port.descriptor, select.POLLIN)
        return bool(asked.poll(0))

    def read(self, port: Port) -> bytes | None:
        """One frame; None when there is none after all. Raises OSError when there will never be one again."""
        try:
            if self.calls_say_so:
                size = os.preadv(port.descriptor, self._into, -1, os.RWF_NOWAIT)
            else:
                os.set_blocking(port.descriptor, False)
                size = os.readv(port.descriptor, self._into)
        except BlockingIOError:
            return None
        except OSError as problem:
            if self._is_too_much_for(problem):
                return self.read(port)
            port.failed[f"read {errno.errorcode.get(problem.errno or 0, '?')}"] += 1
            raise
        port.frames_in += 1
        return bytes(self._view[:size])

    def write(self, rank: int, data: tuple[bytes, memoryview], packets: int, size_bytes: int) -> bool:
        """Whether the node has it; what it could not take is counted and gone, as at any network card."""
        port = self.ports[rank]
        if port.descriptor < 0:
            port.failed["absent"] += packets
            return False
        try:
            if self.calls_say_so:
                os.pwritev(port.descriptor, data, -1, os.RWF_NOWAIT)
            else:
                os.set_blocking(port.descriptor, False)
                os.writev(port.descriptor, data)
        except OSError as problem:
            if self._is_too_much_for(problem):
                return self.write(rank, data, packets, size_bytes)
            port.failed[f"write {errno.errorcode.get(problem.errno or 0, '?')}"] += packets
            return False
        port.packets_out += packets
        port.bytes_out += size_bytes
        return True

    def _is_too_much_for(self, problem: OSError) -> bool:
        """Whether this kernel has just said that it is one of the older ones: the call is made again, in their way."""
        if problem.errno != errno.EOPNOTSUPP or not self.calls_say_so:
            return False
        self.calls_say_so = False
        sys.stderr.write("this kernel is older than 6.4: TUN devices are read and written by O_NONBLOCK\n")
        sys.stderr.flush()
        return True

    def close(self) -> None:
        """All nodes lose their devices."""
        open_ports = [port for port in self.ports if port.is_attached]
        close_together(port.descriptor for port in open_ports)
        for port in open_ports:
            port.descriptor = -1
