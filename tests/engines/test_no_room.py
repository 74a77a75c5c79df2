"""A fabric that cannot open one more file: whoever calls waits outside, and nobody else notices."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from testbed.engines.fabric import listeners, unix_sockets
from testbed.engines.fabric.dispatcher import Dispatcher
from testbed.engines.fabric.listeners import ControlListener, NodeListener
from testbed.protocol.fabric import FROM_FABRIC, Attached, Done, FromFabric, GetStatus, ToFabric
from testbed.protocol.message import encode

LOOKS = 20


class Full:
    """The kernel's answer while there is no room."""

    def __init__(self, number: int) -> None:
        self.number: int | None = number
        self.asked = 0

    def accept(self, listener: socket.socket) -> socket.socket | None:
        self.asked += 1
        return unix_sockets.accept(_Refusing(self.number) if self.number else listener)  # type: ignore[arg-type]


class _Refusing:
    def __init__(self, number: int) -> None:
        self._number = number

    def accept(self) -> None:
        raise OSError(self._number, "no room")


def look(dispatcher: Dispatcher) -> None:
    dispatcher.dispatch()


def answer(request: ToFabric, _: int) -> FromFabric:
    return Done(request.number, 1.0)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_whoever_cannot_be_let_in_waits_and_is_not_asked_after_all_the_time(
    number: int,
    dispatcher: Dispatcher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = Full(number)
    monkeypatch.setattr(listeners, "accept", full.accept)
    monkeypatch.setattr(listeners, "_CLOSED_S", 60.0)
    path = tmp_path / "control.sock"
    door = ControlListener(dispatcher, path, answer, lambda _: None, lambda: None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect(str(path))
        caller.send(encode(GetStatus(7)))
        for _ in range(LOOKS):
            look(dispatcher)
        assert full.asked == 1
        assert capsys.readouterr().err == f"whoever calls at {path} has to wait: no room\n"
        monkeypatch.setattr(listeners, "_CLOSED_S", 0.0)
        dispatcher.rest(door._listener._listener.fileno(), 0.0)  # that time is over
        for _ in range(LOOKS):
            look(dispatcher)
        assert full.asked > 1
        full.number = None
        caller.settimeout(0.0)
        for _ in range(LOOKS):
            look(dispatcher)
        assert FROM_FABRIC.read(caller.recv(1000)) == Done(7, 1.0)
    assert capsys.readouterr().err == ""  # it is said once
    door.close()


def test_a_door_that_rests_can_be_closed(
    dispatcher: Dispatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "accept", Full(errno.EMFILE).accept)
    monkeypatch.setattr(listeners, "_CLOSED_S", 0.0)
    path = tmp_path / "node.sock"
    other = NodeListener(dispatcher, tmp_path / "other.sock", lambda _: Attached())
    door = NodeListener(dispatcher, path, lambda _: Attached())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect(str(path))
        look(dispatcher)
        door.close()
        look(dispatcher)
    assert not path.exists()
    other.close()


def test_whoever_has_hung_up_before_is_no_reason_to_close(dispatcher: Dispatcher, tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    door = ControlListener(dispatcher, path, answer, lambda _: None, lambda: None)
    with pytest.raises(unix_sockets.NoRoom):
        unix_sockets.accept(_Refusing(errno.ENOMEM))  # type: ignore[arg-type]
    assert unix_sockets.accept(_Refusing(errno.ECONNABORTED)) is None  # type: ignore[arg-type]
    door.close()
