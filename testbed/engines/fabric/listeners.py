"""Where nodes and control come in.

Takes paths and who to ask, gives nothing; touches the sockets. Nobody who calls can make the fabric wait, and
a node that calls without end costs one connection.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from testbed.engines.fabric.dispatcher import Dispatcher
from testbed.engines.fabric.unix_sockets import NoRoom, accept, close_all, listen, receive, send
from testbed.protocol.fabric import FROM_NODE_TO_FABRIC, TO_FABRIC, Attached, FromFabric, Refused, ToFabric, Watch
from testbed.protocol.message import Message, ProtocolError

_CLOSED_S = 0.5
"""For how long nobody is let in when there was no room."""


class _Listener:
    """Lets callers in, one after the other."""

    def __init__(self, dispatcher: Dispatcher, path: Path, welcome: Callable[[socket.socket], None]) -> None:
        self._dispatcher = dispatcher
        self._path = path
        self._welcome = welcome
        self._listener = listen(path)
        self._is_full = False
        dispatcher.add(self._listener.fileno(), self._open)

    def close(self) -> None:
        self._dispatcher.remove(self._listener.fileno())
        with suppress(OSError):
            self._path.unlink()  # first: a name where nobody listens tells of a fabric that was killed
        self._listener.close()

    def _open(self) -> None:
        try:
            caller = accept(self._listener)
        except NoRoom as problem:
            self._dispatcher.rest(self._listener.fileno(), _CLOSED_S)
            if not self._is_full:
                self._is_full = True
                sys.stderr.write(f"whoever calls at {self._path} has to wait: {problem}\n")
                sys.stderr.flush()
            return
        self._is_full = False
        if caller is not None:
            self._welcome(caller)


class NodeListener:
    """The socket that one node has: whoever comes in here is that node."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        path: Path,
        attach: Callable[[int], Attached | Refused],
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`attach` takes over the descriptor that a node gives; `refused` is told why it was not, or nothing was."""
        self._dispatcher = dispatcher
        self._attach = attach
        self._refused = refused
        self._caller: socket.socket | None = None
        self._listener = _Listener(dispatcher, path, self._welcome)

    def close(self) -> None:
        self._hang_up()
        self._listener.close()

    def _welcome(self, caller: socket.socket) -> None:
        self._hang_up()  # one at a time
        self._caller = caller
        self._dispatcher.add(caller.fileno(), partial(self._hear, caller))

    def _hear(self, caller: socket.socket) -> None:
        told = receive(caller)
        if told is not None:
            data, descriptors = told
            if not data:
                return
            answer = self._answer(data, descriptors)
            if isinstance(answer, Refused):
                self._refused(answer.reason)
            send(caller, answer)
        self._hang_up()

    def _answer(self, data: bytes, descriptors: list[int]) -> Attached | Refused:
        try:
            FROM_NODE_TO_FABRIC.read(data)
            (descriptor,) = descriptors
        except ProtocolError as problem:
            close_all(descriptors)
            return Refused(str(problem))
        except ValueError:
            close_all(descriptors)
            return Refused(f"one descriptor was expected, {len(descriptors)} came")
        return self._attach(descriptor)

    def _hang_up(self) -> None:
        if self._caller is not None:
            self._dispatcher.remove(self._caller.fileno())
            self._caller.close()
            self._caller = None


class ControlListener:
    """The socket of control, which may call more than once."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        path: Path,
        answer: Callable[[ToFabric, int], FromFabric],
        gone: Callable[[int], None],
        lost: Callable[[], None],
    ) -> None:
        """Every caller has a number of its own, which `gone` is told in the end; `lost` when it led the run."""
        self._dispatcher = dispatcher
        self._answer = answer
        self._gone = gone
        self._lost = lost
        self._numbers = count()
        self._callers: dict[socket.socket, int] = {}
        self._watchers: set[socket.socket] = set()
        self._leaders: set[socket.socket] = set()
        self._listener = _Listener(dispatcher, path, self._welcome)

    def tell(self, message: Message) -> None:
        """Everybody who watches."""
        for watcher in list(self._watchers):
            if not send(watcher, message):
                self._hang_up(watcher)

    def close(self) -> None:
        for caller in list(self._callers):
            self._hang_up(caller)
        self._listener.close()

    def _welcome(self, caller: socket.socket) -> None:
        self._callers[caller] = next(self._numbers)
        self._dispatcher.add(caller.fileno(), partial(self._hear, caller))

    def _hear(self, caller: socket.socket) -> None:
        told = receive(caller)
        if told is None:
            self._hang_up(caller)
            return
        data, descriptors = told
        close_all(descriptors)
        if not data:
            return
        try:
            request = TO_FABRIC.read(data)
        except ProtocolError:
            self._hang_up(caller)
            return
        if isinstance(request, Watch):
            self._watchers.add(caller)
            if request.lead:
                self._leaders.add(caller)
        answer = self._answer(request, self._callers[caller])
        if caller in self._callers and not send(caller, answer):
            self._hang_up(caller)

    def _hang_up(self, caller: socket.socket) -> None:
        self._dispatcher.remove(caller.fileno())
        caller.close()
        self._gone(self._callers.pop(caller))
        self._watchers.discard(caller)
        if caller in self._leaders:
            self._lost()
