"""Runs lie where their users want them, however long that path is."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest

from testbed.engines.fabric.requests import FabricLost
from testbed.engines.fabric.start import FabricConversation
from testbed.socket_paths import connect, short_enough


@pytest.mark.parametrize("length", [10, 90, 200])
def test_a_socket_is_reached_wherever_it_lies(tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    path = folder / "control.sock"
    monkeypatch.chdir(folder)
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path.name)
        listener.listen()
        connect(path).close()
        FabricConversation(path).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_short_name_stays_as_it_is() -> None:
    with short_enough(Path("/a/b.sock")) as name:
        assert name == "/a/b.sock"


def test_where_nothing_is_nothing_is_reached(tmp_path: Path) -> None:
    missing = tmp_path / ("x" * 200) / "control.sock"
    with pytest.raises(OSError, match="No such file"):
        connect(missing)
    with pytest.raises(FabricLost):
        FabricConversation(missing)


def test_who_has_many_callers_is_waited_for(tmp_path: Path) -> None:
    """As a fabric that hundreds of nodes want at once: with a timeout of Python's the kernel refuses at once."""
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, ExitStack() as stack:
        listener.bind(str(path))
        listener.listen(1)
        for _ in range(2):
            stack.enter_context(connect(path))
        with pytest.raises(BlockingIOError):
            connect(path, 0.05)
        accepting = Timer(0.2, lambda: stack.enter_context(listener.accept()[0]))
        accepting.start()
        connect(path, 20.0).close()
        accepting.join()
