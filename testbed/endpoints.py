"""Endpoints of a run's processes: the path of a UNIX socket, or a function that connects by other means.

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
    """Connects to an endpoint; raises OSError if nothing listens there."""
    return connect(endpoint, patience_s) if isinstance(endpoint, Path) else endpoint(patience_s)
