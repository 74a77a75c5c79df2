"""A node that crashes says nothing any more; one that is only killed says goodbye, by its kernel."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.plan.addresses import address
from testbed.protocol.fabric import Cut, Detach
from tests.engines.world import PORT, connect, needs_network, pair, world

pytestmark = needs_network
SILENCE_S = 1.5


def hears(seconds: float) -> Callable[[], str]:
    """What comes of a connection after its first byte, until then."""

    def work() -> str:
        with socket.create_server(("0.0.0.0", PORT)) as listener:  # noqa: S104 - in a namespace of its own
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                connection.settimeout(seconds)
                try:
                    return "data" if connection.recv(1) else "farewell"
                except TimeoutError:
                    return "nothing"
                except ConnectionResetError:
                    return "reset"

    return work


def speaks_and_waits(dest: str) -> Callable[[], None]:
    def work() -> None:
        with connect(dest) as connection:
            connection.sendall(b"x")
            signal.pause()

    return work


@pytest.mark.parametrize(("cut", "heard"), [(True, "nothing"), (False, "farewell")])
def test_no_farewell_leaves_a_node_that_was_cut_off_first(cut: bool, heard: str, tmp_path: Path) -> None:
    with world(pair("5ms"), tmp_path) as made:
        one, other = made.node(0, speaks_and_waits(address(1))), made.node(1, hears(SILENCE_S))
        other.start()
        one.start()
        time.sleep(0.3)
        if cut:
            made.control.ask(lambda n: Cut(n, (0,)))
        os.kill(one.pid, signal.SIGKILL)
        time.sleep(0.3)
        made.control.ask(lambda n: Detach(n, (0,)))
        assert other.result() == heard
