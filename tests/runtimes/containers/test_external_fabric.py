"""A fabric in a container of its own, as control meets it: sockets of this test stand for it."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from testbed.engines.fabric.sockets import control_socket
from testbed.errors import CouldNotStart
from testbed.runtimes.containers import container_backend
from testbed.runtimes.containers.container_backend import ExternalFabric, wait_for_fabric


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen(1)
    return listener


def test_one_that_has_ended_in_good_order_has_taken_its_socket_along(tmp_path: Path) -> None:
    path = control_socket(tmp_path)
    fabric = ExternalFabric(path)
    with listening(path):
        assert fabric.is_alive()
        path.unlink()
        assert fabric.stop() == 0
    assert not fabric.is_alive()


def test_one_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    fabric = ExternalFabric(control_socket(tmp_path))
    listening(fabric.socket).close()
    began_s = time.monotonic()
    assert (fabric.is_alive(), fabric.stop()) == (False, None)
    assert time.monotonic() - began_s < 5


def test_one_that_does_not_end_is_waited_for_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_backend, "END_PATIENCE_S", 0.2)
    fabric = ExternalFabric(control_socket(tmp_path))
    with listening(fabric.socket):
        assert fabric.stop() is None


def test_it_is_met_as_soon_as_it_listens(tmp_path: Path) -> None:
    path = control_socket(tmp_path)

    async def body() -> None:
        meeting = asyncio.create_task(wait_for_fabric(path, lambda: True))
        await asyncio.sleep(0.2)
        assert not meeting.done()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            await asyncio.sleep(0.2)
            assert not meeting.done(), "it has a name, but does not listen yet"
            listener.listen(1)
            assert await meeting == ExternalFabric(path)

    asyncio.run(asyncio.wait_for(body(), 20))


def test_nobody_waits_for_it_whose_run_is_over(tmp_path: Path) -> None:
    is_over = asyncio.Event()

    async def body() -> None:
        meeting = asyncio.create_task(wait_for_fabric(control_socket(tmp_path), lambda: not is_over.is_set()))
        await asyncio.sleep(0.2)
        assert not meeting.done()
        is_over.set()
        assert await meeting is None

    asyncio.run(asyncio.wait_for(body(), 20))


def test_one_that_never_comes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_backend, "_TIMEOUT_S", 0.2)
    with pytest.raises(CouldNotStart, match="has not started listening within"):
        asyncio.run(wait_for_fabric(control_socket(tmp_path), lambda: True))
