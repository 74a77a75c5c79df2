"""A fabric that somebody else has started, in a container of its own.

Takes its socket, gives what the run needs of it; calls there to see whether anybody listens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.fabric.start import END_PATIENCE_S
from testbed.errors import CouldNotStart
from testbed.socket_paths import connect

_PATIENCE_S = 120.0
_LOOK_S = 0.05
_CALL_S = 1.0


@dataclass
class MetFabric:
    """It ends when its leader hangs up, and listens until its files are complete. Its starter knows how it ended."""

    socket: Path
    log: None = None
    was_killed: bool = False
    pid: int | None = None

    def is_alive(self) -> bool:
        """One that was killed has left its socket behind."""
        try:
            connect(self.socket, _CALL_S).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            pass  # it has no time for callers
        return True

    def stop(self) -> int | None:
        """0 when it has ended in good order, as far as can be seen from here."""
        until_s = time.monotonic() + END_PATIENCE_S
        while self.is_alive():
            if time.monotonic() > until_s:
                return None
            time.sleep(_LOOK_S)
        return None if self.socket.exists() else 0


async def meet_fabric(socket: Path, is_wanted: Callable[[], bool]) -> MetFabric | None:
    """Waits until it is there, or nobody wants it any more; raises CouldNotStart when it does not come."""
    fabric = MetFabric(socket)
    until_s = time.monotonic() + _PATIENCE_S
    while not fabric.is_alive():
        if not is_wanted():
            return None
        if time.monotonic() > until_s:
            words = f"the fabric's container has not come within {_PATIENCE_S:g} s"
            raise CouldNotStart(words, "see what it has logged")
        await asyncio.sleep(_LOOK_S)
    return fabric
