"""Where a process of a run listens: a socket of this machine, by its path, or a function that connects elsewhere.

Takes an endpoint, gives a connection of whole packets; touches the socket.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Union

from testbed.socket_paths import connect

Connect = Callable[[float], socket.socket]
"""Connects within this many seconds; raises OSError as the kernel does."""
Endpoint = Union[Path, Connect]  # noqa: UP007 - a name for both at run time


def connect_to(endpoint: Endpoint, patience_s: float) -> socket.socket:
    """Raises OSError where nothing listens."""
    return connect(endpoint, patience_s) if isinstance(endpoint, Path) else endpoint(patience_s)
