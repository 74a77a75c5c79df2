"""Control's side of the zygote: the process that all nodes are forked from.

Takes places, gives news of nodes; starts and ends the zygote's process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

from testbed.control.packets import PacketLink
from testbed.protocol import FROM_ZYGOTE, Died, Fork, Forked, Unable, Warm
from testbed.records import Failure
from testbed.runtimes.local.places import Places

_MOST_SAID = 2000


class Nursery:
    """The zygote, for use inside a running event loop."""

    def __init__(
        self,
        places: Places,
        loopback: int,
        forked: Callable[[int, int], None],
        died: Callable[[Died], None],
        gone: Callable[[str], None],
    ) -> None:
        """Told of: a node's rank and process id; a node's death; the zygote's own, when nobody wanted it."""
        self._forked = forked
        self._died = died
        self._gone = gone
        self._is_warm = asyncio.Event()
        self._unable: Unable | None = None
        self._is_closing = False
        self._log = places.runtime / "zygote.log"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with self._log.open("ab") as log, theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    *(sys.executable, "-m", "testbed.runtimes.local.zygote"),
                    *(str(places.run.path.resolve()), str(places.sockets), str(theirs.fileno())),
                    *(str(os.getpid()), str(loopback)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._link = PacketLink(ours, self._hear, self._hung_up)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def is_warm(self) -> Failure | None:
        """Wait until nodes can be forked; what is wrong with the plan's code when they never can."""
        await self._is_warm.wait()
        if self._unable is not None:
            return Failure(self._unable.reason, self._unable.file, self._unable.line)
        return None

    def fork(self, rank: int, rejoin: str | None, first_round: int) -> None:
        self._link.send(Fork(rank, rejoin, first_round))

    def give_up(self) -> None:
        """Whoever waits for it to be warm need not any more."""
        self._is_warm.set()

    def close(self, patience_s: float) -> None:
        """It ends, and all nodes with it: at once without patience."""
        self._is_closing = True
        self._link.close()
        try:
            if patience_s:
                self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            pass
        self._process.kill()
        self._process.wait()

    def _hear(self, packet: bytes) -> None:
        match FROM_ZYGOTE.read(packet):
            case Warm():
                self._is_warm.set()
            case Forked(rank=rank, pid=pid):
                self._forked(rank, pid)
            case Died() as news:
                self._died(news)
            case Unable() as why:
                self._unable = why
                self._is_warm.set()

    def _hung_up(self) -> None:
        if self._is_closing or self._unable is not None:
            return
        status = self._process.wait()
        ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        said = self._log.read_text(errors="replace").strip()[-_MOST_SAID:]
        self._gone(ended if self._is_warm.is_set() or not said else f"{ended}: {said}")
        self._is_warm.set()
