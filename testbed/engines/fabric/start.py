"""Starts a fabric, talks to it, ends it.

Takes a configuration and a folder, gives a `FabricHandle`; touches the folder and the process that it starts.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed.endpoints import Endpoint, connect_to
from testbed.engines.fabric.config import FabricConfig, write_config
from testbed.engines.fabric.requests import Answer, FabricLost, Note, Requests
from testbed.engines.fabric.sockets import control_socket
from testbed.engines.spawn import spawn_module
from testbed.errors import CouldNotStart
from testbed.protocol.fabric import ToFabric
from testbed.protocol.message import MAX_MESSAGE_BYTES, encode

READY = b"ready\n"
LOG = "fabric.log"
START_PATIENCE_S = 60.0
ANSWER_PATIENCE_S = 30.0
END_PATIENCE_S = 10.0
"""It ends within a second; the kernel may take longer over hundreds of devices."""


class FabricConversation:
    """One connection to a fabric; requests are answered one after the other."""

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._socket = connect_to(endpoint, ANSWER_PATIENCE_S)
        except OSError as problem:
            raise FabricLost(f"cannot reach the fabric: {problem.strerror or problem}") from None
        self._notes: list[Note] = []
        self._requests = Requests(self._notes.append)

    def ask(self, make: Callable[[int], ToFabric]) -> Answer:
        """The answer to a request, which is made with the number given, as in `ask(lambda n: Cut(n, (3,)))`."""
        request = self._requests.numbered(make)
        self._send(encode(request))
        while True:
            answer = self._requests.answer_in(self._receive())
            if answer is not None and answer.number == request.number:
                return answer

    def notes(self) -> list[Note]:
        """What the fabric told since the last call, to a connection that watches; never waits."""
        readable = select.poll()
        readable.register(self._socket, select.POLLIN)
        while readable.poll(0):
            self._requests.answer_in(self._receive())
        found = self._notes.copy()
        self._notes.clear()
        return found

    def fileno(self) -> int:
        """Readable when there may be notes."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.send(data, socket.MSG_NOSIGNAL)
        except OSError as problem:
            raise FabricLost(f"the fabric has ended: {problem.strerror or problem}") from None

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(MAX_MESSAGE_BYTES)
        except TimeoutError:
            raise FabricLost(f"the fabric did not answer within {ANSWER_PATIENCE_S:g} s") from None
        except OSError as problem:
            raise FabricLost(f"the fabric has ended: {problem.strerror or problem}") from None
        if not data:
            raise FabricLost("the fabric has ended")
        return data


@dataclass
class FabricHandle:
    """A running fabric."""

    process: subprocess.Popen[bytes]
    sockets: Path
    log: Path
    was_killed: bool = False
    """From here, because it did not end when it was told to."""
    _conversations: list[FabricConversation] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    def connect(self) -> FabricConversation:
        conversation = FabricConversation(control_socket(self.sockets))
        self._conversations.append(conversation)
        return conversation

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> int:
        """Ends it, its files complete; gives its exit status. May be called again."""
        for conversation in self._conversations:
            conversation.close()
        self._conversations.clear()
        if self.is_alive():
            self.process.terminate()
        try:
            return self.process.wait(END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.was_killed = True
            self.process.kill()
            return self.process.wait()


def start_fabric(config: FabricConfig, folder: Path, more_environment: Mapping[str, str] | None = None) -> FabricHandle:
    """A fabric that nodes and control can reach; raises CouldNotStart, with what it said, when it ended instead.

    The folder gets its configuration and its log; the folders that the configuration names are made.
    """
    log = folder / LOG
    try:
        for each in (folder, Path(config.sockets), Path(config.engine)):
            each.mkdir(parents=True, exist_ok=True)
        write_config(folder, config)
        with log.open("ab") as errors:
            words = (str(folder), str(os.getpid()))
            process = spawn_module(
                "testbed.engines.fabric",
                words,
                stdout=subprocess.PIPE,
                stderr=errors,
                more_environment=more_environment,
            )
    except OSError as problem:  # such as when the run directory is removed in that moment
        raise CouldNotStart(f"the fabric cannot be started: {problem.strerror or problem}") from None
    if not _is_ready(process):
        process.kill()
        process.wait()
        said = ""
        with suppress(OSError):  # the log may be gone
            said = log.read_text(errors="replace").strip()[-2000:]
        raise CouldNotStart(f"the fabric did not start: {said or 'it said nothing'}", f"see {log}")
    return FabricHandle(process, Path(config.sockets), log)


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    output = process.stdout
    if output is None:
        return False
    deadline_s = time.monotonic() + START_PATIENCE_S
    said = b""
    with output:
        while said != READY:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
                return False
            more = os.read(output.fileno(), len(READY))
            if not more:
                return False
            said += more
    return True
