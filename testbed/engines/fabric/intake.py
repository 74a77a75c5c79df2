"""Frames from nodes' devices, one at a time, each with the moment since when it may have waited in its device.

Takes ports, gives frames; touches the ports' descriptors. The fabric takes one frame of a node in a turn, so that no node
holds up the others, and no kernel tells how many more lie in a TUN device. They age all the same: where a node writes
faster than the fabric reads, each of its frames comes later than the one before. So a device that was not seen empty for
a while is read until it is (a *look*). What comes after that is younger than that moment, and what was read is held here for
its turn, as it would have waited in the device.

The first frame after a look tells how long frames wait there now: it was written just then. Those behind it are taken to
have waited as long, until the next look. Frames that are held grow cold in the processor's caches (each costs a quarter
more time), so looks that find many are rare, and between them only a few frames are read ahead.
"""

from __future__ import annotations

import math
import time
from collections import deque

from testbed.engines.fabric.ports import Port, Ports
from testbed.engines.tun import QUEUE_LENGTH

UNSURE_S = 0.00025
"""A device may have something to read for so long, in turn after turn, until it is read further."""
READ_AHEAD = 8
"""Frames of one device in a turn, for other nodes wait meanwhile; and held between looks."""
LOOK_AFTER = 16.0
"""Times as long as frames wait."""
MOST_HELD = QUEUE_LENGTH
"""Frames of one node in a look, as many as its device holds; a look that finds more ends there."""
MOST_HELD_BYTES = 256 << 20
"""Of all nodes."""


class _Queue:
    """One node's frames that were read ahead."""

    __slots__ = ("frames", "looked_s", "waits_s")

    def __init__(self) -> None:
        self.frames: deque[tuple[bytes, float, float]] = deque()
        """Each with the moment since when it may have waited, and for how long at most."""
        self.looked_s = -math.inf
        """When the latest look ended that found more than is read ahead anyway."""
        self.waits_s: float | None = None
        """For how long the first frame after that had waited; None as long as it has not come."""

    def may_look(self, since_s: float, turn_s: float) -> bool:
        """Whether it pays, the device having been empty at `since_s`."""
        if since_s != self.looked_s:
            return True
        return self.waits_s is not None and turn_s - since_s > LOOK_AFTER * self.waits_s

    def longest_s(self, since_s: float) -> float:
        """For how long what is read now is taken to have waited at most, when its turn comes."""
        return math.inf if since_s != self.looked_s or self.waits_s is None else self.waits_s

    def next(self, turn_s: float) -> tuple[bytes, float]:
        data, since_s, longest_s = self.frames.popleft()
        if self.waits_s is None and since_s == self.looked_s:
            self.waits_s = turn_s - since_s
        return data, max(since_s, turn_s - longest_s)


class Intake:
    """Of all nodes of one fabric; the frames of each leave in the order in which they were written."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._queues: dict[int, _Queue] = {}
        """By rank, of nodes of which anything was read ahead, ever."""
        self._held_bytes = 0
        self.holding: dict[int, Port] = {}
        """By rank, the nodes of which frames are held: it is their turn whether their devices have more or not."""

    def take(self, port: Port, turn: int, turn_s: float) -> tuple[bytes, float] | None:
        """The node's next frame, and since when it may have waited, by the host's clock; None when there is none.

        Raises OSError, as `Ports.read` does, when there will never be one again.
        """
        if port.turn == turn and turn_s - port.since_s > UNSURE_S:
            self._read_ahead(port, turn_s)
        if self.holding and port.rank in self.holding:
            queue = self._queues[port.rank]
            taken = queue.next(turn_s)
            self._held_bytes -= len(taken[0])
            if not queue.frames:
                del self.holding[port.rank]
            return taken
        data = self._ports.read(port)
        return None if data is None else (data, port.since_s)

    def forget(self, rank: int) -> None:
        """The node has lost its device, and what was in it."""
        self.holding.pop(rank, None)
        if (queue := self._queues.pop(rank, None)) is not None:
            self._held_bytes -= sum(len(data) for data, _, _ in queue.frames)

    def _read_ahead(self, port: Port, turn_s: float) -> None:
        """A few frames; the port knows when it was empty, if it was."""
        queue = self._queues.get(port.rank)
        if queue is None:
            queue = self._queues[port.rank] = _Queue()
        frames, since_s = queue.frames, port.since_s
        longest_s = queue.longest_s(since_s)
        most = MOST_HELD if queue.may_look(since_s, turn_s) else READ_AHEAD
        for _ in range(READ_AHEAD):
            if len(frames) >= most or self._held_bytes >= MOST_HELD_BYTES:
                if most == READ_AHEAD:
                    break  # nobody knows how many more there are
                self._ends_look(queue, port)
                break
            data = self._ports.read(port)
            if data is None:
                self._ends_look(queue, port)
                break
            frames.append((data, since_s, longest_s))
            self._held_bytes += len(data)
        if frames:
            self.holding[port.rank] = port

    def _ends_look(self, queue: _Queue, port: Port) -> None:
        """The device was empty, or as good as that: what comes now comes later."""
        port.since_s = time.monotonic()
        if len(queue.frames) > READ_AHEAD:
            queue.looked_s, queue.waits_s = port.since_s, None
