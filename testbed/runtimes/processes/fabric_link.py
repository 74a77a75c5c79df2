"""Requests to a fabric that goes on, without waiting for it: the run's loop has other things to do meanwhile.

Takes a connection, gives answers and what the fabric tells by itself; touches that connection. Requests reach the
fabric in the order in which they were made, and it answers them one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.control.packets import PacketLink
from testbed.engines.fabric.requests import Answer, FabricLost, Note, Requests
from testbed.engines.fabric.start import ANSWER_PATIENCE_S
from testbed.errors import UsageProblem
from testbed.protocol.fabric import Denied, Done, FabricStatus, Links, ToFabric, Watch
from testbed.protocol.message import ProtocolError
from testbed.socket_paths import connect

Granted = Done | Links | FabricStatus
"""An answer that is no denial."""


class FabricLink:
    """The run's one connection to its fabric; for use inside a running event loop."""

    def __init__(self, path: Path, told: Callable[[Note], None], over: Callable[[str], None]) -> None:
        """`over` is called, once, with why it ended, unless it was closed from here. Without it the fabric ends."""
        self._requests = Requests(told)
        self._over = over
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._is_closed = False
        try:
            connection = connect(path, ANSWER_PATIENCE_S)
        except OSError as problem:
            raise FabricLost(f"cannot reach the fabric: {problem.strerror or problem}") from None
        self._link = PacketLink(connection, self._hear, self._hung_up)
        self._link.send(Watch(0, lead=True))

    async def ask(self, make: Callable[[int], ToFabric]) -> Granted:
        """The answer to the request that is made with the number given.

        Raises UsageProblem when the fabric denies it, FabricLost when there is none or it says nothing for too long.
        """
        if self._is_closed:
            raise FabricLost("the fabric has ended")
        request = self._requests.numbered(make)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = future
        self._link.send(request)
        try:
            async with asyncio.timeout(ANSWER_PATIENCE_S):
                answer = await future
        except TimeoutError:
            words = f"it did not answer within {ANSWER_PATIENCE_S:g} s"
            self._end(words)
            raise FabricLost(f"the fabric has ended: {words}") from None
        finally:
            self._waiting.pop(request.number, None)
        if isinstance(answer, Denied):
            raise UsageProblem(answer.reason)
        return answer

    def close(self) -> None:
        """The fabric ends; requests without an answer raise FabricLost."""
        self._is_closed = True
        self._link.close()

    def _hear(self, packet: bytes) -> None:
        try:
            answer = self._requests.answer_in(packet)
        except ProtocolError as problem:
            self._end(f"its words are not understood: {problem}")
            return
        future = None if answer is None else self._waiting.get(answer.number)
        if answer is not None and future is not None and not future.done():
            future.set_result(answer)

    def _hung_up(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(FabricLost("the fabric has ended"))
        if not self._is_closed:
            self._is_closed = True
            self._over("")

    def _end(self, words: str) -> None:
        """It cannot be relied on any more."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError):
                self._link.close()
            self._over(words)
