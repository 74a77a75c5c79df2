"""Runs a command of the image inside a node's container, in the node's network.

Takes a run, a rank and words, gives the command's exit code; asks the Docker Engine, and forwards standard input,
output, errors and signals. Used by users who may use the Docker Engine, but may not enter networks themselves.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from testbed.errors import CannotExecute, UsageProblem
from testbed.image.engine_client import connected
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.exec_stream import ExecStream, attached
from testbed.runtimes.docker.live import container_of_node, is_process_of

if TYPE_CHECKING:
    from docker import DockerClient

_UNPRIVILEGED = "65534:65534"
_CANNOT_RUN = (126, 127)
_NOT_THERE = ("executable file not found", "no such file")
"""In the words of the Docker Engine, some versions of which have one code for both."""
_REFUSAL = b"OCI runtime exec failed"
"""How the Docker Engine's output begins if it cannot run the command."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_CHUNK_BYTES = 1 << 16
_OTHERWISE = "`docker exec` knows other ways"
_TIMEOUT_S = 10.0
"""How long the Docker Engine may take to notice that a command has started or ended."""
_LOOK_S = 0.02


def run_inside(run: RunDirectory, rank: int, words: Sequence[str]) -> int:
    """The command's exit code. It has no privileges, and ends with the calling process unless that is killed.

    Raises UsageProblem if the node's container does not run, and CannotExecute if that has no such program.
    """
    with connected() as engine:
        container = container_of_node(engine, run, rank)
        if container is None:
            raise UsageProblem("the node's container does not run now")
        command = _Command(engine, container, words)
        with attached(command.id, _OTHERWISE) as stream, _signals() as signals:
            try:
                refusal = _pass_on(stream, signals, command.signal)
            except BaseException:
                # The Docker Engine would let the command go on without its caller.
                command.signal(signal.SIGKILL)
                raise
        code = command.exit_code()
    if refusal and code in _CANNOT_RUN:
        why = refusal.decode(errors="replace").strip().rpartition('": ')[2].removesuffix(": unknown")
        raise CannotExecute(
            f"cannot run {words[0]} in the node's container: {why}",
            "only what is in its image runs there",
            is_there=not any(each in why for each in _NOT_THERE),
        )
    sys.stdout.buffer.write(refusal)
    return code


class _Command:
    """A command that the Docker Engine runs beside the container's first process."""

    def __init__(self, engine: DockerClient, container: str, words: Sequence[str]) -> None:
        self._api = engine.api
        self._container = container
        user = _user(self._api.inspect_container(container)["Config"]["Env"] or [])
        self.id = str(self._api.exec_create(container, list(words), stdin=True, user=user)["Id"])

    def signal(self, number: int) -> bool:
        """Sends a signal, and gives whether it could: that needs the same user, and the Docker Engine's host."""
        state = self._state(lambda state: state["Pid"] or state["ExitCode"] is not None)
        pid = state["Pid"]
        if not isinstance(pid, int) or not pid or state["ExitCode"] is not None:
            return False
        with suppress(OSError):
            if is_process_of(pid, self._container):
                os.kill(pid, number)
                return True
        return False

    def exit_code(self) -> int:
        """Waits for the command's end. The code is above 128 if a signal ended it."""
        code = self._state(lambda state: state["ExitCode"] is not None)["ExitCode"]
        return code if isinstance(code, int) else 1

    def _state(self, condition: Callable[[dict[str, object]], object]) -> dict[str, object]:
        """The state as soon as it meets the condition, or after the timeout."""
        until_s = time.monotonic() + _TIMEOUT_S
        while not condition(state := self._api.exec_inspect(self.id)) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return dict(state)


def _user(environment: Sequence[str]) -> str:
    """The learner's user. An unprivileged one in place of root, which would have the container's capabilities."""
    told = dict(each.partition("=")[::2] for each in environment)
    user, group = told.get("TESTBED_UID", ""), told.get("TESTBED_GID", "")
    return f"{user}:{group}" if user.isdecimal() and group.isdecimal() and int(user) else _UNPRIVILEGED


@contextmanager
def _signals() -> Iterator[int]:
    """A descriptor from which signals are read, one byte each. They have no other effect while this is entered."""
    told, telling = os.pipe()
    os.set_blocking(telling, False)
    before = {number: signal.signal(number, lambda *_: None) for number in _PASSED_ON}
    other = signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    try:
        yield told
    finally:
        signal.set_wakeup_fd(other)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        os.close(telling)


def _pass_on(stream: ExecStream, signals: int, tell: Callable[[int], bool]) -> bytes:
    """Forwards input and output until the command ends; gives the Docker Engine's message if it could not be run.

    Raises KeyboardInterrupt for a signal that cannot be sent to the command.
    """
    refusal = unsent = b""
    own = _own_input()
    targets = (sys.stdout.buffer, sys.stderr.buffer)
    is_first = goes_on = True
    while True:
        for is_error, text in stream.frames():
            if is_first and text.startswith(_REFUSAL):
                refusal = text
            else:
                targets[is_error].write(text)
                targets[is_error].flush()
            is_first = False
        if not goes_on:
            return refusal
        reading: list[int | ExecStream] = [stream, signals]
        if own is not None and not unsent:
            reading.append(own)
        readable, writable, _ = select.select(reading, [stream] if unsent else [], [])
        if signals in readable and not all(map(tell, os.read(signals, _CHUNK_BYTES))):
            raise KeyboardInterrupt
        if writable:
            unsent = unsent[stream.send(unsent) :]
        if own is not None and own in readable:
            unsent = os.read(own, _CHUNK_BYTES)
            if not unsent:
                own = None
                stream.end_input()
        if stream in readable:
            goes_on = stream.receive()


def _own_input() -> int | None:
    """The descriptor of standard input; None if there is none."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None
