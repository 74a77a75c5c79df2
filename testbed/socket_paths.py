"""UNIX sockets with long paths: the kernel takes at most 107 bytes, and run directories may have longer paths.

Takes a path, gives a short name of the same socket, or a connection; keeps its folder open meanwhile. Light: the first
process of a container imports it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_BYTES = 107
_TIME = struct.Struct("@ll")
"""Seconds and microseconds."""


@contextmanager
def short_enough(path: str | os.PathLike[str]) -> Iterator[str]:
    """A short name to connect to or listen at, valid while entered; raises OSError if there is no such folder."""
    if len(os.fsencode(path)) <= _MOST_BYTES:
        yield os.fspath(path)
        return
    parent, name = os.path.split(path)
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)


def connect(path: str | os.PathLike[str], patience_s: float = 30.0) -> socket.socket:
    """A connection of whole packets to the listening process; waits while its backlog is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # Not `settimeout` yet: with that the kernel does not wait, but refuses at once.
        patience = _TIME.pack(*divmod(int(patience_s * 1e6), 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        with short_enough(path) as name:
            connection.connect(name)
        connection.settimeout(patience_s)
    except OSError:
        connection.close()
        raise
    return connection
