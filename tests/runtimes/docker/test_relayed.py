"""The command's side of a relay: what an Engine passes on becomes packets, and the other way round."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from testbed.control.commands import Look, ask
from testbed.engines.fabric.requests import FabricLost
from testbed.engines.fabric.start import FabricConversation
from testbed.errors import UsageProblem
from testbed.image.engine_client import DockerEngineSilent
from testbed.protocol.message import MAX_MESSAGE_BYTES
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.relay import PacketReader, framed
from testbed.runtimes.docker import relayed as module
from testbed.runtimes.docker.exec_stream import ExecStream
from testbed.runtimes.docker.runtime import DockerRuntime
from testbed.runtimes.tracking.process_records import Places, commands_socket
from tests.image.fake_engine import fake_engine

PATIENCE_S = 20.0
OUT, ERRORS = 1, 2


class Engine:
    """What runs a relay, as far as its stream goes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours, self.theirs = socket.socketpair()
        self.theirs.settimeout(PATIENCE_S)

        @contextmanager
        def attached(_id: str, _hint: str) -> Iterator[ExecStream]:
            with ours:
                yield ExecStream(ours, b"")

        monkeypatch.setattr(module, "attached", attached)

    def say(self, data: bytes, kind: int = OUT) -> None:
        self.theirs.sendall(struct.pack(">BxxxL", kind, len(data)) + data)

    def connect(self) -> socket.socket:
        return module._through("command", PATIENCE_S)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    made = Engine(monkeypatch)
    yield made
    made.theirs.close()


def test_packets_pass_both_ways_however_they_are_cut(engine: Engine) -> None:
    longest = os.urandom(MAX_MESSAGE_BYTES)
    engine.say(framed(b"") + framed(b"together with the welcome"))
    with engine.connect() as connection:
        assert connection.recv(MAX_MESSAGE_BYTES) == b"together with the welcome"
        engine.say(framed(longest)[:1000])
        engine.say(b"a warning\n", ERRORS)
        engine.say(framed(longest)[1000:] + framed(b"x"))
        assert [connection.recv(MAX_MESSAGE_BYTES) for _ in range(2)] == [longest, b"x"]
        heard: list[bytes] = []
        packets = PacketReader()
        many = Thread(target=lambda: [connection.send(longest) for _ in range(20)])
        many.start()  # more than is on its way at a time
        while len(heard) < 20:
            heard += packets.of(engine.theirs.recv(1 << 16))
        many.join()
        assert set(heard) == {longest}
    assert engine.theirs.recv(1) == b"", "the relay is told that the client is gone"


def test_who_hears_nothing_more_is_told(engine: Engine) -> None:
    engine.say(framed(b""))
    with engine.connect() as connection:
        engine.theirs.close()
        assert connection.recv(1) == b""


def test_what_is_no_packet_ends_it(engine: Engine) -> None:
    engine.say(framed(b""))
    with engine.connect() as connection:
        engine.say(b"\xff\xff\xff\xff")
        assert connection.recv(1) == b""


def test_where_nobody_listens_it_is_as_with_any_socket(engine: Engine) -> None:
    engine.say(b"Traceback\nNo such file or directory\n", ERRORS)
    engine.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(UsageProblem, match="the run does not answer: No such file or directory"):
        ask(lambda _: engine.connect(), Look())


@pytest.mark.parametrize(
    "said", [b"OCI runtime exec failed: no such file\r\nmore\n", b"cannot exec in a stopped container\n"]
)
def test_an_engine_that_says_in_its_place_why_it_runs_no_relay(engine: Engine, said: bytes) -> None:
    """As a line of its output, which is no packet."""
    engine.say(said)
    engine.theirs.shutdown(socket.SHUT_WR)
    first = said.decode().splitlines()[0]
    with pytest.raises(UsageProblem, match=f"the run does not answer: {first}$"):
        ask(lambda _: engine.connect(), Look())


def test_a_fabric_is_not_reached_where_the_engine_says_so_either(engine: Engine) -> None:
    engine.say(b"cannot exec in a stopped container\n")
    with pytest.raises(FabricLost, match="cannot reach the fabric: cannot exec in a stopped container"):
        FabricConversation(lambda _: engine.connect())


def test_an_engine_that_starts_nothing_is_not_waited_for(engine: Engine) -> None:
    with pytest.raises(TimeoutError, match="no relay in time"):
        module._through("command", 0.2)
    assert engine.theirs.recv(1) == b""


def recorded(run: RunDirectory, *, on_volumes: bool = False, unseen: bool = False) -> None:
    places = Places(run, run.path)
    places.runtime.mkdir(exist_ok=True)
    places.write_record([], on_volumes=on_volumes, unseen=unseen)


@pytest.mark.parametrize("on_volumes", [True, False])
def test_the_record_says_where_sockets_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, on_volumes: bool
) -> None:
    run, runtime = RunDirectory(tmp_path), DockerRuntime()
    recorded(run, on_volumes=on_volumes)
    monkeypatch.setattr(DockerRuntime, "goes_on", lambda *_: True)
    live = runtime.attach(run)
    for endpoint in (live.control, live.fabric):
        assert isinstance(endpoint, Path) is not on_volumes
    if not on_volumes:
        assert live.control == commands_socket(tmp_path)


@pytest.mark.parametrize("is_there", [True, False])
def test_the_engine_knows_whether_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    run = RunDirectory(tmp_path)
    with fake_engine(tmp_path / "e") as server:
        server.answers["/containers/json"] = (200, [{"Id": "c"}] if is_there else [])
        recorded(run, unseen=True)
        assert DockerRuntime().goes_on(run) is is_there
        del server.asked[:]
        recorded(run)
        assert not DockerRuntime().goes_on(run)
        assert server.asked == [], "what is seen from here is not asked for"
        server.answers["/containers/json"] = (200, [])
        with pytest.raises(ConnectionRefusedError, match="control does not run"):
            module.relayed(run, commands_socket)(1.0)


def test_an_engine_that_hangs_is_waited_for_as_long_as_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    over = Event()
    with fake_engine(tmp_path / "e") as server:
        server.answers["/containers/json"] = (200, lambda _: over.wait(PATIENCE_S) and [])
        try:
            with pytest.raises(DockerEngineSilent, match="has not answered for 1 s"):
                module.relayed(RunDirectory(tmp_path), commands_socket)(1.0)
        finally:
            over.set()
