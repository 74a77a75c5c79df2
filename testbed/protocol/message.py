"""Encodes and decodes messages between processes of a run; base of those that the other modules define.

Pure. Every message is one packet of a UNIX SOCK_SEQPACKET socket, at most `MAX_MESSAGE_BYTES` long. Messages do not
cross the emulated network and are not counted.
"""

from __future__ import annotations

import errno
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from testbed.first_words import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES  # it is known by this name here

OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors for which `accept` fails though a connection waits: its socket stays readable, so the caller must pause."""

_Kind = TypeVar("_Kind")


class ProtocolError(ValueError):
    """The bytes are no message of the expected kind."""


class Message(
    msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of all messages; the field `type` identifies them."""


class Reader(Generic[_Kind]):
    """Decodes the messages of one direction of a conversation."""

    def __init__(self, kind: object) -> None:
        self._kind = kind

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[_Kind]:
        """Made on first use: no process takes part in all conversations."""
        return msgspec.msgpack.Decoder(self._kind)

    def read(self, data: bytes) -> _Kind:
        """Decodes a message; raises ProtocolError for anything that is none of this direction."""
        if len(data) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message has at most {MAX_MESSAGE_BYTES} bytes")
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise ProtocolError(str(problem)) from None


_ENCODER = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    data = _ENCODER.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"{type(message).__name__} would have {len(data)} bytes, at most {MAX_MESSAGE_BYTES}")
    return data
