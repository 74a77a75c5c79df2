"""One connection from a peer: the peer's opening, then the frames of its messages.

Takes an accepted socket, gives frames; touches the socket. Nothing on it is trusted: sizes are limited before anything
gets memory, and what breaks the protocol is reset.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from fcntl import ioctl
from termios import FIONREAD

from testbed.node.zmq_tcp_info import cut_off
from testbed.node.zmtp import (
    SOCKET_PULL,
    SOCKET_PUSH,
    ForeignProtocol,
    FrameReader,
    FrameTooLarge,
    MessageTooLarge,
    Opening,
    opening,
)

_OPENING = opening(SOCKET_PULL)
_AT_ONCE = 16
"""Reads before other tasks of this process run."""
_WAKE_BYTES = 256 << 10
"""Of a large frame, at most this much is awaited before the process is woken up."""
_WAKE_SHARE = 16
"""At most this part of all bytes so far is awaited: the kernel adapts its window to what is read in a round trip."""
_WINDOW_BYTES = 4 * _WAKE_BYTES
"""The window has room for a lot more than that; otherwise the sender would stop."""


class Ending(Enum):
    """Why a connection was ended by this side, or what the other one broke."""

    CLOSED = "closed"
    FOREIGN = "foreign"
    """It did not finish the opening, or broke the protocol later."""
    ENDLESS = "endless"
    """It sent much more than a message may have."""
    GIANT = "giant"
    """It announced a frame beyond all limits."""


class IncomingConnection:
    """Calls `on_frames` with each message's frames, and `on_over` once when the connection has ended."""

    def __init__(
        self,
        connection: socket.socket,
        address: str,
        reader: FrameReader,
        handshake_s: float,
        on_over: Callable[[IncomingConnection, Ending], None],
    ) -> None:
        self.address = address
        self._socket = connection
        self._reader = reader
        self._on_over = on_over
        self._opening: Opening | None = Opening(SOCKET_PUSH)
        self._wakes_at = 1
        """Bytes that the kernel waits for."""
        self._taken = 0
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(handshake_s, self._end, Ending.FOREIGN)
        self._loop.add_reader(connection, self._read)
        # The kernel makes the window as large as what it waits for, and leaves it so.
        self._wake_at(_WINDOW_BYTES)
        self._wake_at(1)
        with suppress(OSError):  # reading will tell
            connection.send(_OPENING)

    def close(self, *, reset: bool) -> None:
        """Ends the connection without a callback."""
        if self._is_over:
            return
        self._is_over = True
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        if reset:
            cut_off(self._socket)
        self._socket.close()

    @property
    def has_unread(self) -> bool:
        """Whether the kernel holds bytes of it."""
        return not self._is_over and ioctl(self._socket, FIONREAD, bytes(4)) != bytes(4)

    def _end(self, ending: Ending) -> None:
        if not self._is_over:
            self.close(reset=ending is not Ending.CLOSED)
            self._on_over(self, ending)

    def _read(self) -> None:
        reader, connection = self._reader, self._socket
        try:
            for _ in range(_AT_ONCE):
                room = reader.room()
                count = connection.recv_into(room)
                if not count:
                    self._end(Ending.CLOSED if self._opening is None else Ending.FOREIGN)
                    return
                self._taken += count
                if self._opening is None:
                    reader.got(count)
                else:
                    self._read_opening(self._opening, room[:count])
                if self._is_over:
                    return
                if count < len(room) or not reader.missing:
                    break  # if there is more, the kernel says so again
        except BlockingIOError:
            pass
        except OSError:
            self._end(Ending.CLOSED if self._opening is None else Ending.FOREIGN)
            return
        except ForeignProtocol:
            self._end(Ending.FOREIGN)
            return
        except FrameTooLarge:
            self._end(Ending.GIANT)
            return
        except MessageTooLarge:
            self._end(Ending.ENDLESS)
            return
        self._wake_at(min(reader.missing, _WAKE_BYTES, self._taken // _WAKE_SHARE) or 1)

    def _read_opening(self, said: Opening, data: memoryview) -> None:
        rest = said.rest_after(data)
        if rest is None:
            return
        self._opening = None
        self._timer.cancel()
        if rest:
            self._reader.room()[: len(rest)] = rest
            self._reader.got(len(rest))

    def _wake_at(self, count: int) -> None:
        """The process is woken when so many bytes are there, or the window is full, or the connection has ended."""
        if count != self._wakes_at:
            self._wakes_at = count
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
