"""Messages between nodes: a small header and raw buffers.

Takes values, gives messages and their frames, and back; touches nothing. The header is msgpack and the buffers are
numbers, so a message can never be more than data. Payload, metadata and control bytes are counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from testbed.records import Count

Scalar = int | float | str | bool
Field = Scalar | Sequence[Scalar]
"""A value in a message's header: one number, text or truth value, or a list of them."""
Buffer = NDArray[np.generic]
_Number = TypeVar("_Number", bound=np.generic)

MAX_HEADER = 1 << 16
MAX_BUFFER = 1 << 31
MOST_BUFFERS = 128
"""Arrays of one message, payload and metadata together; a system call writes at most 1024 pieces."""
DTYPES: Mapping[str, type[np.generic]] = {
    "f4": np.float32,
    "f2": np.float16,
    "i1": np.int8,
    "i2": np.int16,
    "i4": np.int32,
    "i8": np.int64,
    "u1": np.uint8,
}
"""The types of arrays in messages, by their names in headers."""


class MalformedMessage(Exception):
    """The received bytes are not a message of this protocol."""


class MalformedModel(ValueError):
    """A message does not hold a model of the expected kind; says why."""


class UnusableModel(Exception):
    """A received model cannot be mixed: `sender` is at fault, not the receiver."""

    def __init__(self, sender: int, why: str) -> None:
        super().__init__(f"the node of rank {sender} sent a model that cannot be used: {why}")
        self.sender = sender
        self.why = why


class _Header(msgspec.Struct, array_like=True):
    kind: str
    round: int
    fields: dict[str, Scalar | list[Scalar]]
    buffers: list[tuple[str, list[int]]]
    """Type and shape of each buffer."""
    payload: int
    """How many buffers are payload; they come last."""


_HEADER = msgspec.msgpack.Decoder(_Header)
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(frozen=True, eq=False)
class Message:
    """One message: its kind, its round, a few values, and arrays. Sending it makes it immutable.

    Arrays have the types float32, float16, int8, int16, int32, int64 or uint8; torch tensors on the CPU are taken as
    arrays. Those that are received are read-only.
    """

    kind: str
    """What the message is for: a word that recipients ask for."""
    round: int
    """The round that it belongs to."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    """Numbers, texts, truth values, and lists of these, by name."""
    payload: tuple[Buffer, ...] = ()
    """Values of models, gradients or samples."""
    metadata: tuple[Buffer, ...] = ()
    """What is needed to understand the payload, such as indices."""

    @cached_property
    def header(self) -> bytes:
        buffers = [(buffer.dtype.str[1:], list(buffer.shape)) for buffer in (*self.metadata, *self.payload)]
        return _ENCODER.encode((self.kind, self.round, dict(self.fields), buffers, len(self.payload)))

    @cached_property
    def size(self) -> Count:
        """Bytes by kind; a message without payload is all control."""
        values = sum(buffer.nbytes for buffer in self.payload)
        about = len(self.header) + sum(buffer.nbytes for buffer in self.metadata)
        if self.payload:
            return Count(payload=values, metadata=about, messages=1)
        return Count(control=about, messages=1)

    @property
    def nbytes(self) -> int:
        return self.size.payload + self.size.metadata + self.size.control

    def with_fields(self, **more: Field) -> Message:
        """A copy with more fields in its header; the buffers are shared."""
        return Message(self.kind, self.round, {**self.fields, **more}, self.payload, self.metadata)

    def of_kind(self, kind: str) -> Message:
        """A copy of another kind; the buffers are shared."""
        return Message(kind, self.round, self.fields, self.payload, self.metadata)

    def delivered(self) -> Message:
        """A copy as a recipient in the same process gets it: fields of its own, and the same read-only buffers."""
        header = _HEADER.decode(self.header)
        copy = Message(header.kind, header.round, header.fields, self.payload, self.metadata)
        copy.__dict__["header"] = self.header
        return copy

    def frames(self) -> list[bytes | Buffer]:
        """The frames on the wire, the payload last."""
        return [self.header, *self.metadata, *self.payload]


def from_frames(frames: Sequence[bytes | memoryview]) -> Message:
    """Parses frames; raises MalformedMessage for anything that is not a message."""
    if not frames or len(frames[0]) > MAX_HEADER:
        raise MalformedMessage("no header, or one that is too long")
    try:
        header = _HEADER.decode(frames[0])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise MalformedMessage(f"the header cannot be read: {problem}") from None
    if len(header.buffers) != len(frames) - 1 or not 0 <= header.payload <= len(header.buffers):
        raise MalformedMessage(f"{len(header.buffers)} buffers announced, {len(frames) - 1} arrived")
    buffers = []
    for (code, shape), frame in zip(header.buffers, frames[1:], strict=True):
        dtype = DTYPES.get(code)
        if dtype is None or any(side < 0 for side in shape) or len(frame) > MAX_BUFFER:
            raise MalformedMessage(f"a buffer of type {code} and shape {shape}")
        values = np.frombuffer(frame, dtype=np.uint8)
        expected = int(np.dtype(dtype).itemsize)
        for side in shape:
            expected *= side
        if values.nbytes != expected:
            raise MalformedMessage(f"a buffer of {values.nbytes} bytes for shape {shape} of {code}")
        try:
            buffers.append(values.view(dtype).reshape(shape))
        except (ValueError, OverflowError):
            raise MalformedMessage(f"a buffer of shape {shape}") from None
    first = len(buffers) - header.payload
    message = Message(header.kind, header.round, header.fields, tuple(buffers[first:]), tuple(buffers[:first]))
    message.__dict__["header"] = bytes(frames[0])  # as it came, so that it need not be made again to be counted
    return message


@dataclass(frozen=True, eq=False, slots=True)
class Received:
    """A message that arrived."""

    sender: int
    """The rank of the node that sent it."""
    message: Message
    """What was sent."""
    t: float = 0.0
    """When it had arrived completely."""

    @property
    def round(self) -> int:
        """The round that the message belongs to."""
        return self.message.round

    @property
    def degree(self) -> int:
        """The number of peers that the sender sent it to."""
        degree = self.message.fields.get("degree")
        return degree if isinstance(degree, int) else 0


def snapshot(values: NDArray[_Number]) -> NDArray[_Number]:
    """A copy that nothing can change: later changes of the model do not change the message."""
    return np.frombuffer(values.tobytes(), values.dtype).reshape(values.shape)
