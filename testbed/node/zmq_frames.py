"""Messages as ZeroMQ frames, and the envelope that precedes each on the wire.

Takes messages, gives frames; touches nothing. The frames of a message are made once for all its recipients. A message
that is sent again keeps its number, so that its recipient detects duplicates.
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
    """Sender, life and number of a message."""

    sender: int
    """The rank that the sender claims."""
    life: int
    """Differs after every start of the sender."""
    number: int
    """Grows from message to message."""

    def packed(self) -> bytes:
        return _FORM.pack(_MAGIC, *self)


def opened(data: bytes) -> Envelope | None:
    """Parses an envelope; None when the bytes are none."""
    if len(data) != _FORM.size:
        return None
    magic, *values = _FORM.unpack(data)
    return Envelope(*values) if magic == _MAGIC else None


def frame_bytes(size: int) -> int:
    """Bytes of a frame on a ZeroMQ connection, with its flags and length."""
    return size + (2 if size < 256 else 9)


class FramedMessage:
    """A message's frames, which ZeroMQ shares among all connections and frees after the last use."""

    __slots__ = ("__weakref__", "ahead_bytes", "frames", "wire_bytes")

    def __init__(self, message: Message) -> None:
        self.frames = [zmq.Frame(_bytes_of(frame), copy=True, track=False) for frame in message.frames()]
        self.wire_bytes = frame_bytes(ENVELOPE_BYTES) + sum(frame_bytes(len(frame)) for frame in self.frames)
        self.ahead_bytes = self.wire_bytes - message.nbytes
        """Bytes on the wire that are not part of the application's message."""


class FramedMessageCache:
    """Caches the frames of every message that is still referenced."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Message, FramedMessage] = WeakKeyDictionary()

    def of(self, message: Message) -> FramedMessage:
        framed = self._known.get(message)
        if framed is None:
            framed = self._known[message] = FramedMessage(message)
        return framed


class OutgoingMessage:
    """One message to one peer, until its arrival is known."""

    __slots__ = ("begin", "framed", "left", "message", "number", "on_left")

    def __init__(self, number: int, message: Message, framed: FramedMessage, on_left: Callable[[], None]) -> None:
        self.number = number
        self.message = message
        self.framed = framed
        self.on_left = on_left
        self.left = False
        """Whether its last byte has left, on this or an earlier connection."""
        self.begin = 0
        """Its position in the connection's byte stream."""

    @property
    def end(self) -> int:
        return self.begin + self.framed.wire_bytes

    def bytes_left(self, left: int) -> int:
        """How many of the message's own bytes are among the first `left` bytes of the connection."""
        return min(self.message.nbytes, max(0, left - self.begin - self.framed.ahead_bytes))


def _bytes_of(frame: bytes | Buffer) -> bytes | Buffer:
    if isinstance(frame, bytes):
        return frame
    return np.ascontiguousarray(frame).reshape(-1).view(np.uint8) if frame.size else b""
