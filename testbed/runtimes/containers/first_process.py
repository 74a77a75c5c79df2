"""Process 1 of a learner's container, as the kernel sees it: signals wake it up, and it buries orphans.

Takes nothing, gives what to wait for; touches the process' signals and its dead children. Light.
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
    """Of the calling process; one for all its life."""

    def __init__(self) -> None:
        self.is_asked_to_leave = False
        self.asked_to_leave: Callable[[], None] = lambda: None
        """Who else is to be told."""
        self.waking, self._writing = os.pipe()
        """Readable when there was one."""
        os.set_blocking(self.waking, False)
        os.set_blocking(self._writing, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._be_asked_to_leave)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it wakes the loop up

    def empty(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.waking, _CHUNK_BYTES):
                pass

    def close(self) -> None:
        """In a child, which has its own."""
        os.close(self.waking)
        os.close(self._writing)

    def _be_asked_to_leave(self, *_: object) -> None:
        self.is_asked_to_leave = True
        self.asked_to_leave()


def reap(whom: int | None = None) -> int | None:
    """Everybody who has died; how that one did, if it was among them."""
    found = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == whom:
                found = status
    return found


def await_message(control: socket.socket, signals: Signals) -> bool:
    """Waits until control says something, or hangs up; False when this process is asked to leave before."""
    while not signals.is_asked_to_leave:
        readable, _, _ = select.select([control.fileno(), signals.waking], [], [])
        if signals.waking in readable:
            signals.empty()
            reap()
        if control.fileno() in readable:
            return True
    return False


def receive(control: socket.socket) -> bytes:
    """One packet; nothing when it has hung up."""
    try:
        return control.recv(MAX_MESSAGE_BYTES)
    except OSError:
        return b""


def send(control: socket.socket, packet: bytes) -> None:
    with suppress(OSError):
        control.send(packet, socket.MSG_NOSIGNAL)
