"""Duties of process 1 of a learner's container: it handles signals, and reaps dead children.

Takes nothing, gives a descriptor to wait for; touches the process' signals and its dead children. Light.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from testbed.boot_messages import MAX_MESSAGE_BYTES

_CHUNK_BYTES = 65_536


class Signals:
    """The signal handlers of the calling process."""

    def __init__(self) -> None:
        self.is_asked_to_leave = False
        self.asked_to_leave: Callable[[], None] = lambda: None
        """Called at SIGTERM and SIGINT."""
        self.waking, self._writing = os.pipe()
        """A descriptor that is readable after a signal."""
        os.set_blocking(self.waking, False)
        os.set_blocking(self._writing, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._be_asked_to_leave)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to write to the wakeup descriptor

    def empty(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.waking, _CHUNK_BYTES):
                pass

    def close(self) -> None:
        """Closes the descriptors, in a child process."""
        os.close(self.waking)
        os.close(self._writing)

    def _be_asked_to_leave(self, *_: object) -> None:
        self.is_asked_to_leave = True
        self.asked_to_leave()


def reap(learner: int | None = None) -> int | None:
    """Reaps all dead children; gives the learner's status if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == learner:
                found = status
    return found


def await_message(control: socket.socket, signals: Signals) -> bool:
    """Waits for a message from control, or its disconnection; False if this process is told to end before."""
    while not signals.is_asked_to_leave:
        readable, _, _ = select.select([control.fileno(), signals.waking], [], [])
        if signals.waking in readable:
            signals.empty()
            reap()
        if control.fileno() in readable:
            return True
    return False


def receive(control: socket.socket) -> bytes:
    """One packet; empty if control has disconnected."""
    try:
        return control.recv(MAX_MESSAGE_BYTES)
    except OSError:
        return b""


def send(control: socket.socket, packet: bytes) -> None:
    with suppress(OSError):
        control.send(packet, socket.MSG_NOSIGNAL)
