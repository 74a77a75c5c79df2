"""ZeroMQ's protocol on a connection (ZMTP 3.0, mechanism NULL): how it opens, and how frames lie on it.

Takes bytes, gives frames; touches nothing. Nodes speak the protocol themselves: a message's frames are written from
the memory where they are, and read into the memory where they stay.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

SOCKET_PUSH, SOCKET_PULL = b"PUSH", b"PULL"

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_MECHANISM = slice(12, 32)
_READY = b"\x05READY"
_MORE, _LONG, _COMMAND = 1, 2, 4
"""Flags of a frame: another one follows, its size has eight bytes, it is not part of a message."""
_LONG_SIZE = struct.Struct(">Q")
_SHORT_MAX = 255
SCRATCH_BYTES = 4096
"""Read at once if it is unknown what comes: a whole small message, or the head of a large one."""


class ForeignProtocol(Exception):
    """The other end does not speak this protocol."""


class FrameTooLarge(Exception):
    """The other end announces a frame beyond the limit."""


class MessageTooLarge(Exception):
    """The other end sends a message beyond the limit, perhaps one without an end."""


def frame_head(size: int, *, more: bool) -> bytes:
    """What precedes a frame of that size: its flags and length."""
    flags = _MORE if more else 0
    if size <= _SHORT_MAX:
        return bytes((flags, size))
    return bytes((flags | _LONG,)) + _LONG_SIZE.pack(size)


def opening(kind: bytes) -> bytes:
    """All that a socket of that kind says before its first message."""
    ready = _READY + b"\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return _GREETING + bytes((_COMMAND, len(ready))) + ready


class Opening:
    """Reads the other end's opening."""

    def __init__(self, kind: bytes) -> None:
        """`kind`: the kind of socket that the other end must be."""
        self._expected = b"\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
        self._data = b""

    def rest_after(self, data: bytes | memoryview) -> bytes | None:
        """Takes more bytes; gives those behind the opening, or None before its end. Raises ForeignProtocol."""
        self._data += data
        greeting = self._data[: len(_GREETING)]
        if greeting[:1] != _GREETING[:1] or (len(greeting) > 10 and (greeting[9] != 0x7F or greeting[10] < 3)):
            raise ForeignProtocol
        start = len(_GREETING) + 2
        if len(self._data) < start:
            return None
        flags, size = self._data[start - 2 : start]
        if greeting[_MECHANISM] != _GREETING[_MECHANISM] or flags != _COMMAND:
            raise ForeignProtocol
        if len(self._data) < start + size:
            return None
        ready = self._data[start : start + size]
        if not ready.startswith(_READY) or self._expected not in ready:
            raise ForeignProtocol
        return self._data[start + size :]


class FrameReader:
    """Collects the frames of one connection's messages.

    Read from the connection into `room()`, then say with `got` how much. A large frame is read straight into its own
    memory, everything else by way of a scratch buffer that all readers of a process may share.
    """

    def __init__(
        self,
        scratch: memoryview,
        deliver: Callable[[list[bytes | memoryview]], None],
        *,
        largest_frame: int,
        largest_message: int,
        most_frames: int,
    ) -> None:
        """`deliver` gets a message's frames, at most one more than `most_frames`."""
        self._scratch = scratch
        self._deliver = deliver
        self._largest_frame = largest_frame
        self._largest_message = largest_message
        self._most_frames = most_frames
        self._frames: list[bytes | memoryview] = []
        self._bytes = 0
        self._rest = b""
        """The beginning of a frame's head, or nothing."""
        self._body: memoryview | None = None
        self._filled = 0
        self._is_last = False

    @property
    def missing(self) -> int:
        """How many bytes the frame under way still needs; 0 if it is not known."""
        return 0 if self._body is None else len(self._body) - self._filled

    def room(self) -> memoryview:
        """Where the next bytes go."""
        if self._body is not None:
            return self._body[self._filled :]
        kept = len(self._rest)
        self._scratch[:kept] = self._rest
        return self._scratch[kept:]

    def got(self, count: int) -> None:
        """Takes bytes that were read into `room()`. Raises ForeignProtocol, FrameTooLarge, MessageTooLarge."""
        if self._body is None:
            self._parse(self._scratch[: len(self._rest) + count])
            return
        self._filled += count
        if self._filled == len(self._body):
            body, self._body = self._body, None
            self._end_frame(body.toreadonly())

    def _parse(self, data: memoryview) -> None:
        at, end = 0, len(data)
        while end - at >= 2:
            flags, size, start = data[at], data[at + 1], at + 2
            if flags & ~(_MORE | _LONG):  # there are no commands after the opening
                raise ForeignProtocol
            if flags & _LONG:
                start = at + 1 + _LONG_SIZE.size
                if end < start:
                    break
                (size,) = _LONG_SIZE.unpack_from(data, at + 1)
            self._bytes += start - at + size
            if size > self._largest_frame:
                raise FrameTooLarge
            if self._bytes > self._largest_message:
                raise MessageTooLarge
            self._is_last = not flags & _MORE
            at = start + size
            if at > end:
                self._body = np.empty(size, np.uint8).data
                self._filled = end - start
                self._body[: self._filled] = data[start:end]
                self._rest = b""
                return
            self._end_frame(bytes(data[start:at]))
        self._rest = bytes(data[at:])

    def _end_frame(self, body: bytes | memoryview) -> None:
        if len(self._frames) <= self._most_frames:
            self._frames.append(body)
        if self._is_last:
            frames, self._frames = self._frames, []
            self._bytes = 0
            self._deliver(frames)
