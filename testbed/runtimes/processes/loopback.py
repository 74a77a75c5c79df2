"""Addresses on the loopback device for runs without an engine: every run has a block of its own.

Takes nothing, gives the second byte of the run's addresses; holds a name in the kernel, which lets go of it when the
process ends, however that happens.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from testbed.errors import PreflightRefused

_FIRST, _LAST = 20, 252
"""127.0.0.0 and what other programs like to use are left alone; a run has two blocks, as 198.18.0.0/15 has."""


class LoopbackBlock:
    """`number` is 0 where none is wanted."""

    def __init__(self, *, wanted: bool) -> None:
        self.number = 0
        self._name: socket.socket | None = None
        for number in range(_FIRST, _LAST, 2) if wanted else ():
            name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                name.bind(f"\0testbed-loopback-{number}")
            except OSError:
                name.close()
                continue
            self.number, self._name = number, name
            return
        if wanted:
            raise PreflightRefused("too many runs without an engine go on at once")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._name is not None:
            self._name.close()


def on_loopback(address: str, block: int) -> str:
    """Where a node is without an engine: 198.18.x.y is 127.BLOCK.x.y, and 198.19.x.y in the next block."""
    _, second, *rest = address.split(".")
    return ".".join(["127", str(block + int(second) - 18), *rest])
