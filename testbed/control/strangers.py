"""Connections of processes that nobody has told of yet: who forked them may not have been heard.

Takes connections, gives them when it is known whose they are; closes those of which nobody ever tells. For use inside a
running event loop.
"""

from __future__ import annotations

import asyncio
import socket
from typing import NamedTuple

_MOST = 4096
_PATIENCE_S = 60.0
"""A node's birth is told within milliseconds, and within seconds on a machine that is far too busy."""


class _Stranger(NamedTuple):
    connection: socket.socket
    limit: asyncio.TimerHandle


class Strangers:
    """Of every process one connection, for a while."""

    def __init__(self) -> None:
        self._by_pid: dict[int, _Stranger] = {}

    def add(self, pid: int, connection: socket.socket) -> None:
        if pid in self._by_pid or len(self._by_pid) >= _MOST:
            connection.close()
            return
        limit = asyncio.get_running_loop().call_later(_PATIENCE_S, self._send_away, pid)
        self._by_pid[pid] = _Stranger(connection, limit)

    def take(self, pid: int) -> socket.socket | None:
        """It is known now; None when it has not come yet."""
        stranger = self._by_pid.pop(pid, None)
        if stranger is None:
            return None
        stranger.limit.cancel()
        return stranger.connection

    def close(self) -> None:
        for pid in list(self._by_pid):
            self._send_away(pid)

    def _send_away(self, pid: int) -> None:
        connection = self.take(pid)
        if connection is not None:
            connection.close()
