"""Messages as frames, and the envelope that precedes each on the wire.

Takes messages, gives buffers to write; touches nothing. A message's buffers are made once for all its recipients. A
message that is sent again keeps its number, so that its recipient detects duplicates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from testbed.node.messages import Buffer, Message
from testbed.node.zmtp import frame_head

_FORM = struct.Struct("<2sIQQ")
_MAGIC = b"T1"

ENVELOPE_BYTES = _FORM.size
_ENVELOPE_HEAD = frame_head(ENVELOPE_BYTES, more=True)


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


def opened(data: bytes | memoryview) -> Envelope | None:
    """Parses an envelope; None when the bytes are none."""
    if len(data) != _FORM.size:
        return None
    magic, sender, life, number = _FORM.unpack(data)
    return Envelope(sender, life, number) if magic == _MAGIC else None


class FramedMessage:
    """A sealed message as it goes over a connection, without its envelope; its arrays are not copied."""

    __slots__ = ("__weakref__", "ahead_bytes", "buffers", "wire_bytes")

    def __init__(self, message: Message) -> None:
        frames = message.frames()
        self.buffers: list[bytes | memoryview] = []
        for number, frame in enumerate(frames, 1):
            body = frame if isinstance(frame, bytes) else _bytes_of(frame)
            self.buffers += [frame_head(len(body), more=number < len(frames)), body]
        self.wire_bytes = len(_ENVELOPE_HEAD) + ENVELOPE_BYTES + sum(map(len, self.buffers))
        self.ahead_bytes = self.wire_bytes - message.nbytes
        """Bytes on the wire that are not part of the application's message."""


class FramedMessageCache:
    """Caches the buffers of every message that is still referenced."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Message, FramedMessage] = WeakKeyDictionary()

    def of(self, message: Message) -> FramedMessage:
        framed = self._known.get(message)
        if framed is None:
            framed = self._known[message] = FramedMessage(message)
        return framed


class OutgoingMessage:
    """One message to one peer, until its arrival is known."""

    __slots__ = ("begin", "framed", "left", "message", "number", "on_left", "posted_s", "sent_bytes")

    def __init__(self, number: int, message: Message, framed: FramedMessage, on_left: Callable[[], None]) -> None:
        self.number = number
        self.message = message
        self.framed = framed
        self.on_left = on_left
        self.posted_s = 0.0
        """When its link got it, by the loop's clock."""
        self.sent_bytes = 0
        """How many of the message's own bytes are known to have left, each counted once, on all connections."""
        self.left = False
        """Whether its last byte has left, on this or an earlier connection."""
        self.begin = 0
        """Its position in the connection's byte stream."""

    @property
    def end(self) -> int:
        return self.begin + self.framed.wire_bytes

    def note_left(self, left: int) -> None:
        """Notes that the first `left` bytes of the connection have left."""
        own = min(self.message.nbytes, left - self.begin - self.framed.ahead_bytes)
        self.sent_bytes = max(self.sent_bytes, own)

    def buffers(self, rank: int, life: int) -> list[bytes | memoryview]:
        """All bytes to write, the envelope first."""
        return [_ENVELOPE_HEAD + _FORM.pack(_MAGIC, rank, life, self.number), *self.framed.buffers]


def _bytes_of(values: Buffer) -> bytes | memoryview:
    """The memory of an array, which must be contiguous."""
    return values.reshape(-1).view(np.uint8).data if values.size else b""
