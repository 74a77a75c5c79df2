"""Messages as they are handed to ZeroMQ.

Takes messages, gives frames; touches nothing. The frames of one message are made once, for all its recipients.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import zmq

from testbed.node.messages import Buffer, Message
from testbed.node.zmq_envelope import ENVELOPE_BYTES, frame_bytes


class Wrapping:
    """One message's frames, which ZeroMQ shares among all connections and frees when nobody needs them."""

    __slots__ = ("__weakref__", "ahead_bytes", "frames", "wire_bytes")

    def __init__(self, message: Message) -> None:
        self.frames = [zmq.Frame(_bytes_of(frame), copy=True, track=False) for frame in message.frames()]
        self.wire_bytes = frame_bytes(ENVELOPE_BYTES) + sum(frame_bytes(len(frame)) for frame in self.frames)
        self.ahead_bytes = self.wire_bytes - message.nbytes
        """What is not the application's own."""


class Wrappings:
    """Remembers the frames of every message that is still there."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Message, Wrapping] = WeakKeyDictionary()

    def of(self, message: Message) -> Wrapping:
        wrapping = self._known.get(message)
        if wrapping is None:
            wrapping = self._known[message] = Wrapping(message)
        return wrapping


class Parcel:
    """One message for one peer, until its arrival is known."""

    __slots__ = ("begin", "left", "message", "number", "on_left", "wrapping")

    def __init__(self, number: int, message: Message, wrapping: Wrapping, on_left: Callable[[], None]) -> None:
        self.number = number
        self.message = message
        self.wrapping = wrapping
        self.on_left = on_left
        self.left = False
        """Whether its last byte has left, on this or an earlier connection."""
        self.begin = 0
        """Where on the connection it begins."""

    @property
    def end(self) -> int:
        return self.begin + self.wrapping.wire_bytes

    def bytes_left(self, left: int) -> int:
        """How many of the message's own bytes are among the first ones of a connection."""
        return min(self.message.nbytes, max(0, left - self.begin - self.wrapping.ahead_bytes))


def _bytes_of(frame: bytes | Buffer) -> bytes | Buffer:
    if isinstance(frame, bytes):
        return frame
    return np.ascontiguousarray(frame).reshape(-1).view(np.uint8) if frame.size else b""
