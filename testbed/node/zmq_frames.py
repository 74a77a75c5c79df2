"""Messages as they are handed to ZeroMQ.

Takes messages, gives frames; touches nothing. The frames of one message are made once, for all its recipients.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import zmq

from testbed.node.messages import Buffer, Message

_FORM = struct.Struct("<2sIQQ")
_MAGIC = b"T1"

ENVELOPE_BYTES = _FORM.size


class Envelope(NamedTuple):
    """Of one message."""

    sender: int
    """The rank it claims."""
    life: int
    """Another one after every start of the sender."""
    number: int
    """Grows from message to message."""

    def packed(self) -> bytes:
        return _FORM.pack(_MAGIC, *self)


def opened(data: bytes) -> Envelope | None:
    """The envelope in some bytes; None when it is none."""
    if len(data) != _FORM.size:
        return None
    magic, *values = _FORM.unpack(data)
    return Envelope(*values) if magic == _MAGIC else None


def frame_bytes(size: int) -> int:
    """What a frame of some size takes on a connection of ZeroMQ: flags and length come first."""
    return size + (2 if size < 256 else 9)


class FramedMessage:
    """One message's frames, which ZeroMQ shares among all connections and frees when nobody needs them."""

    __slots__ = ("__weakref__", "ahead_bytes", "frames", "wire_bytes")

    def __init__(self, message: Message) -> None:
        self.frames = [zmq.Frame(_bytes_of(frame), copy=True, track=False) for frame in message.frames()]
        self.wire_bytes = frame_bytes(ENVELOPE_BYTES) + sum(frame_bytes(len(frame)) for frame in self.frames)
        self.ahead_bytes = self.wire_bytes - message.nbytes
        """What is not the application's own."""


class FramedMessageCache:
    """Remembers the frames of every message that is still there."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Message, FramedMessage] = WeakKeyDictionary()

    def of(self, message: Message) -> FramedMessage:
        framed = self._known.get(message)
        if framed is None:
            framed = self._known[message] = FramedMessage(message)
        return framed


class OutgoingMessage:
    """One message for one peer, until its arrival is known."""

    __slots__ = ("begin", "framed", "left", "message", "number", "on_left")

    def __init__(self, number: int, message: Message, framed: FramedMessage, on_left: Callable[[], None]) -> None:
        self.number = number
        self.message = message
        self.framed = framed
        self.on_left = on_left
        self.left = False
        """Whether its last byte has left, on this or an earlier connection."""
        self.begin = 0
        """Where on the connection it begins."""

    @property
    def end(self) -> int:
        return self.begin + self.framed.wire_bytes

    def bytes_left(self, left: int) -> int:
        """How many of the message's own bytes are among the first ones of a connection."""
        return min(self.message.nbytes, max(0, left - self.begin - self.framed.ahead_bytes))


def _bytes_of(frame: bytes | Buffer) -> bytes | Buffer:
    if isinstance(frame, bytes):
        return frame
    return np.ascontiguousarray(frame).reshape(-1).view(np.uint8) if frame.size else b""
