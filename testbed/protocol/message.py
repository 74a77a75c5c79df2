"""Messages between processes of a run: to bytes and back; base of all that the modules beside this one define.

Pure. Every message is one packet of a UNIX SOCK_SEQPACKET socket, at most `MAX_MESSAGE_BYTES` long. None of this
crosses the emulated network, and none of it is counted.
"""

from __future__ import annotations

import errno
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from testbed.first_words import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES  # it is known by this name here

OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why nobody can be let in: whoever waits stays there, and would be announced again and again."""

_Kind = TypeVar("_Kind")


class ProtocolError(ValueError):
    """These bytes are no message of the kind expected."""


class Message(
    msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of all messages; the field `type` tells them apart."""


class Reader(Generic[_Kind]):
    """Reads one direction of a conversation."""

    def __init__(self, kind: object) -> None:
        self._kind = kind

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[_Kind]:
        """Made when it is needed first: no process is in all conversations."""
        return msgspec.msgpack.Decoder(self._kind)

    def read(self, data: bytes) -> _Kind:
        """Raises ProtocolError for whatever is not a message of this direction."""
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
