"""Frames from nodes' devices, one at a time, each with the moment since when it may have waited in its device.

Takes ports, gives frames; touches the ports' descriptors. The fabric takes one frame of a node in a turn, so that no
node holds up the others, and no kernel tells how many more lie in a TUN device. They age all the same: where a node
writes faster than the fabric reads, each of its frames comes later than the one before. So a device that was not seen
empty for a while is read until it is (a *look*). What comes after that is younger than that moment, and what was read
is held here for its turn, as it would have waited in the device.

The first frame after a look that found many tells how long frames wait there now: it was written just then. Those
behind it are taken to have waited as long, until the next look. Frames that are held grow cold in the processor's
caches, and cost a quarter more time: such looks are rare.
"""

from __future__ import annotations

import math
import time
from collections import deque

from testbed.engines.fabric.python_plane.ports import Port, Ports
from testbed.engines.tun import QUEUE_LENGTH

LOOK_AT_ONCE = 8
"""Frames of one device in a turn, for other nodes wait meanwhile; a look that finds no more was cheap."""
LOOK_AFTER = 8.0
"""Times as long as frames wait."""
MOST_HELD = QUEUE_LENGTH
"""Frames of one node, as many as its device holds; a look that finds more ends there."""
MOST_HELD_BYTES = 256 << 20
"""Of all nodes."""
_Held = tuple[bytes, float, float]
"""A frame, since when it may have waited, and for how long at most."""


class Intake:
    """Of all nodes of one fabric; the frames of each leave in the order in which they were written."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._held: dict[int, deque[_Held]] = {}
        """By rank; never empty."""
        self._held_bytes = 0
        self.holding: dict[int, Port] = {}
        """By rank, the nodes of which frames are held: it is their turn whether their devices have more or not."""

    def take(self, port: Port, turn: int, turn_s: float) -> tuple[bytes, float] | None:
        """The node's next frame, and since when it may have waited, by the host's clock; None when there is none.

        Raises OSError, as `Ports.read` does, when there will never be one again.
        """
        age_s = turn_s - port.since_s
        if age_s > port.look_after_s and port.turn == turn:
            self._look(port)
        if self.holding and port.rank in self.holding:
            return self._next_held(port.rank, turn_s)
        data = self._ports.read(port)
        if data is None:
            return None
        if age_s <= port.longest_s:
            return data, port.since_s
        if port.longest_s < 0.0:  # the first one after a look
            port.longest_s, port.look_after_s = age_s, LOOK_AFTER * age_s
        return data, turn_s - port.longest_s

    def forget(self, rank: int) -> None:
        """The node has lost its device, and what was in it."""
        if self.holding.pop(rank, None) is not None:
            self._held_bytes -= sum(len(data) for data, _, _ in self._held.pop(rank))

    def _look(self, port: Port) -> None:
        """Goes on in the next turn, where there is more than can be read now, or no room for it.

        Raises OSError, as `Ports.read` does; what was read before that is held.
        """
        held = self._held.get(port.rank) or deque()
        since_s, longest_s, ports = port.since_s, port.longest_s, self._ports
        try:
            for _ in range(LOOK_AT_ONCE):
                if self._held_bytes >= MOST_HELD_BYTES:
                    break  # this device may be full for all that is known
                data = None
                if len(held) < MOST_HELD and (ports.calls_say_so or ports.is_readable(port)):
                    data = ports.read(port)
                if data is None:
                    port.was_empty(time.monotonic())
                    if len(held) > LOOK_AT_ONCE:
                        port.longest_s, port.look_after_s = -1.0, math.inf
                    break
                held.append((data, since_s, longest_s))
                self._held_bytes += len(data)
        finally:
            if held:
                self._held[port.rank], self.holding[port.rank] = held, port

    def _next_held(self, rank: int, turn_s: float) -> tuple[bytes, float]:
        held = self._held[rank]
        data, since_s, longest_s = held.popleft()
        self._held_bytes -= len(data)
        if not held:
            del self._held[rank], self.holding[rank]
        return data, max(since_s, turn_s - longest_s)
