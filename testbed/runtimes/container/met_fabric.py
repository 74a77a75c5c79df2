"""A fabric that somebody else has started, in a container of its own.

Takes its configuration, gives what the run needs of it; looks at its socket.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.start import END_PATIENCE_S
from testbed.errors import CouldNotStart

_PATIENCE_S = 120.0
_LOOK_S = 0.05


@dataclass
class MetFabric:
    """It ends when its leader hangs up, and then its socket goes last. Whoever started it knows how it ended."""

    socket: Path
    log: None = None
    was_killed: bool = False
    pid: int | None = None

    def is_alive(self) -> bool:
        return self.socket.exists()

    def stop(self) -> int | None:
        """0 when it has ended in good order."""
        return 0 if _until(lambda: not self.is_alive(), END_PATIENCE_S) else None


def meet_fabric(config: FabricConfig, _folder: Path) -> MetFabric:
    """Waits until it is there; raises CouldNotStart when it never comes."""
    socket = config.control_socket
    if not _until(socket.exists, _PATIENCE_S):
        raise CouldNotStart(f"the fabric's container has not come within {_PATIENCE_S:g} s", "see what it has logged")
    return MetFabric(socket)


def _until(is_so: Callable[[], bool], within_s: float) -> bool:
    until_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True
