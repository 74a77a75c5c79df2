"""A line to control: kept as long as it is good, and made anew after what broke."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from testbed.control.commands import Denied, Done, Look
from testbed.errors import UsageProblem
from testbed.protocol.message import MAX_MESSAGE_BYTES, encode
from testbed.runtimes.docker.run import ControlClient
from testbed.socket_paths import connect


class Control:
    """Answers each connection so many times, and counts them."""

    def __init__(self, path: Path, answers: list[list[Done | Denied]]) -> None:
        self.guests = 0
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answers in self._answers:
            guest, _ = self._listener.accept()
            self.guests += 1
            with guest:
                for answer in answers:
                    guest.recv(MAX_MESSAGE_BYTES)
                    guest.send(encode(answer))

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def test_one_connection_for_many_questions(path: Path) -> None:
    with closing(Control(path, [[Done(1.0), Done(2.0)]])) as control, closing(ControlClient(path)) as client:
        assert [client.ask(Look()), client.ask(Look())] == [Done(1.0), Done(2.0)]
        assert control.guests == 1


def test_after_what_broke_another_one(path: Path) -> None:
    with closing(Control(path, [[Done(1.0)], [Denied("no")], [Done(3.0)]])) as control:
        with closing(ControlClient(lambda timeout_s: connect(path, timeout_s))) as client:
            assert client.ask(Look()) == Done(1.0)
            with pytest.raises(UsageProblem):
                client.ask(Look())
            with pytest.raises(UsageProblem, match="no"):
                client.ask(Look())
            assert client.ask(Look()) == Done(3.0)
        assert control.guests == 3


def test_where_nobody_is_it_says_so_each_time(path: Path) -> None:
    client = ControlClient(path)
    for _ in range(2):
        with pytest.raises(UsageProblem, match="does not answer"):
            client.ask(Look())
