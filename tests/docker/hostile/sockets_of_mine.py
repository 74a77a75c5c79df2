"""A learner's own way to control, taken from under its node: code in a process can use all that the process has."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress

from testbed.protocol.message import Message, encode


def link_to_control() -> socket.socket:
    """Another handle of the connection that the node has had since it was born."""
    for number in range(3, 1024):
        with suppress(OSError):
            found = socket.socket(fileno=os.dup(number))
            if found.family == socket.AF_UNIX and str(found.getpeername()).endswith("control.sock"):
                return found
            found.close()
    raise AssertionError("a node is connected to control")


def say(link: socket.socket, *said: bytes | Message) -> None:
    """Waits as long as control makes it wait."""
    for each in said:
        data = each if isinstance(each, bytes) else encode(each)
        while True:
            try:
                link.send(data)
                break
            except BlockingIOError:
                select.select([], [link], [])
