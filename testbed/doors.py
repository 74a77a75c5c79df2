"""Where somebody listens: a socket of this machine by its path, or one elsewhere by whoever connects to it.

Takes a door, gives a connection of whole packets; touches the socket.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Union

from testbed.socket_paths import connect

Connect = Callable[[float], socket.socket]
"""Within so many seconds; raises OSError as the kernel does."""
Door = Union[Path, Connect]  # noqa: UP007 - a name for both at run time


def connect_to(door: Door, patience_s: float) -> socket.socket:
    """Raises OSError where nobody is reached."""
    return connect(door, patience_s) if isinstance(door, Path) else door(patience_s)
