"""What precedes a message on the wire: who sends it, in which life, and its number among all to this peer.

Takes values, gives bytes, and back; touches nothing. A message that is sent again keeps its number, so that whoever
has it already knows it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

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
