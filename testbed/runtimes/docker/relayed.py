"""Connections to a run's sockets on volumes: the Docker Engine starts a relay in control's container.

Takes a run and a socket's place, gives a function that connects to it; asks the Docker Engine. Each connection has one
relay process there, and one thread here that forwards packets; both end with it.
"""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from testbed.boot_messages import MAX_MESSAGE_BYTES
from testbed.endpoints import Connect
from testbed.image.engine_client import connected
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.containers.relay import PacketReader, TooLong, framed
from testbed.runtimes.docker.exec_stream import ExecStream, attached
from testbed.runtimes.docker.live import control_of

ON_ITS_MACHINE = "run testbed on the machine that the Docker Engine runs on, where it has such a socket"
_RELAY = ("python", "-m", "testbed.runtimes.containers.relay")
_NOT_LISTENING = "nothing listens there"


def relayed(run: RunDirectory, place: Callable[[Path], Path]) -> Connect:
    """A function that connects to a socket; `place` gives its path in a folder of sockets."""

    def connect(timeout_s: float) -> socket.socket:
        with connected(timeout_s) as engine:
            container = control_of(engine, run)
            if container is None:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "its control does not run")
            words = [*_RELAY, str(place(ContainerPaths().sockets))]
            return _through(str(engine.api.exec_create(container, words, stdin=True)["Id"]), timeout_s)

    return connect


def _through(command: str, timeout_s: float) -> socket.socket:
    """One end of a pair of sockets; the other end is the relay's."""
    with ExitStack() as stack:
        stream = stack.enter_context(attached(command, ON_ITS_MACHINE))
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(theirs)
        passing = _Passing(stream, theirs)
        try:
            passing.await_welcome(timeout_s)
        except BaseException:
            mine.close()
            raise
        thread = threading.Thread(target=_pass_on, args=(passing, stack.pop_all()), daemon=True)
        thread.start()
    mine.settimeout(timeout_s)
    return mine


def _pass_on(passing: _Passing, held: ExitStack) -> None:
    with held, suppress(OSError, TooLong):  # closing the socket tells the other end, whatever the reason
        passing.run()


def _lines(said: bytes) -> list[str]:
    return said.decode(errors="replace").strip().splitlines()


def _refused(words: list[str]) -> ConnectionRefusedError:
    return ConnectionRefusedError(errno.ECONNREFUSED, words[0] if words else _NOT_LISTENING)


class _Passing:
    """Forwards packets between a relay and a socket."""

    def __init__(self, stream: ExecStream, theirs: socket.socket) -> None:
        self._stream = stream
        self._socket = theirs
        self._packets = PacketReader()

    def await_welcome(self, timeout_s: float) -> None:
        """Waits for the relay's first packet; raises OSError, as connecting does, if it has no connection."""
        until_s = time.monotonic() + timeout_s
        printed = errors = b""
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([self._stream], [], [], left_s)[0]:
                raise TimeoutError(errno.ETIMEDOUT, "the Docker Engine has started no relay in time")
            goes_on = self._stream.receive()
            for is_error, text in self._stream.frames():
                if is_error:
                    errors += text
                    continue
                printed += text
                try:
                    welcome = next(self._packets.of(text), None)
                except TooLong:  # no relay was started: the text is the Docker Engine's error message
                    raise _refused(_lines(printed)[:1]) from None
                if welcome is not None:
                    return
            if not goes_on:
                raise _refused(_lines(errors)[-1:] or _lines(printed)[:1])

    def run(self) -> None:
        """Forwards until either side ends. Reads nothing more from a side while its last packet is undelivered."""
        unsent = b""
        goes_on = True
        while True:
            self._deliver()
            if not goes_on:
                return
            reading: list[ExecStream | socket.socket] = [self._stream]
            if not unsent:
                reading.append(self._socket)
            readable, writable, _ = select.select(reading, [self._stream] if unsent else [], [])
            if writable:
                unsent = unsent[self._stream.send(unsent) :]
            if self._socket in readable:
                packet = self._socket.recv(MAX_MESSAGE_BYTES)
                if not packet:
                    return
                unsent = framed(packet)
            if self._stream in readable:
                goes_on = self._stream.receive()

    def _deliver(self) -> None:
        """Delivers the packets received so far, including those that came with the first one."""
        for text in (b"", *(text for is_error, text in self._stream.frames() if not is_error)):
            for packet in self._packets.of(text):
                self._socket.sendall(packet)
