"""Tells control far more than anybody can read, then nonsense, and then does not end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from sockets_of_mine import link_to_control, say  # type: ignore[import-not-found]

from testbed.control.token_bucket import BURST
from testbed.node.node import Node
from testbed.protocol.message import encode
from testbed.protocol.nodes import Recorded
from testbed.records import Event, line

_TIMES = 3


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:  # noqa: ARG001
    if round_ != 1:
        return
    link = link_to_control()
    word = encode(Recorded(line(Event(node.now(), "so-what", "x" * 200))))
    for _ in range(_TIMES * BURST):  # all that is allowed is used up long before
        say(link, word)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        while True:
            say(link, b"nonsense")
    except OSError:  # it is hung up on
        while True:
            os.write(1, b"still here\n")
            time.sleep(0.1)
