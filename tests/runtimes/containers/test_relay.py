"""A relay beside a socket: what is said on one side is heard on the other, and neither outlives the other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.protocol.message import MAX_MESSAGE_BYTES
from testbed.runtimes.containers.relay import PacketReader, TooLong, framed
from tests.docker.runs import environment

pytestmark = pytest.mark.processes

PATIENCE_S = 30.0


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.bind(str(tmp_path / "s"))
        made.listen()
        made.settimeout(PATIENCE_S)
        yield made


@contextmanager
def relaying(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "testbed.runtimes.containers.relay", str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes], packets: PacketReader) -> list[bytes]:
    """The next ones, however many come at a time."""
    assert process.stdout is not None
    while True:
        data = os.read(process.stdout.fileno(), 1 << 20)
        assert data, "it has ended"
        if found := list(packets.of(data)):
            return found


def test_packets_stay_apart_both_ways(tmp_path: Path, listener: socket.socket) -> None:
    longest = os.urandom(MAX_MESSAGE_BYTES)
    with relaying(tmp_path / "s") as process:
        guest, _ = listener.accept()
        with guest:
            packets = PacketReader()
            assert hear(process, packets) == [b""], "a process listens"
            say(process, framed(b"one") + framed(b"two") + framed(longest)[:100])
            say(process, framed(longest)[100:])
            assert [guest.recv(1 << 20) for _ in range(3)] == [b"one", b"two", longest]
            guest.send(longest)
            guest.send(b"x")
            heard: list[bytes] = []
            while len(heard) < 2:
                heard += hear(process, packets)
            assert heard == [longest, b"x"]


def test_it_ends_with_whoever_has_started_it(tmp_path: Path, listener: socket.socket) -> None:
    with relaying(tmp_path / "s") as process:
        guest, _ = listener.accept()
        with guest:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0
            assert guest.recv(1) == b""


def test_it_ends_with_whoever_listened(tmp_path: Path, listener: socket.socket) -> None:
    with relaying(tmp_path / "s") as process:
        listener.accept()[0].close()
        assert process.wait(PATIENCE_S) == 0


def test_what_is_too_long_is_not_waited_for(tmp_path: Path, listener: socket.socket) -> None:
    with relaying(tmp_path / "s") as process:
        guest, _ = listener.accept()
        with guest:
            say(process, (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"))
            assert guest.recv(1) == b""
            assert process.stderr is not None
            assert b"at most 65536 bytes" in process.stderr.read()


def test_where_nobody_listens_it_says_so(tmp_path: Path) -> None:
    with relaying(tmp_path / "none") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == b"", "not even a welcome"
        assert process.stderr.read() == b"No such file or directory\n"
        assert process.wait(PATIENCE_S) == 1


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 200)))
def test_however_a_stream_is_cut(told: list[bytes], cuts: list[int]) -> None:
    stream, packets = b"".join(map(framed, told)), PacketReader()
    places = [0, *sorted(cuts), len(stream)]
    heard = [packet for start, end in pairwise(places) for packet in packets.of(stream[start:end])]
    assert heard == told


def test_a_length_without_bounds_is_refused_before_it_has_come() -> None:
    packets = PacketReader()
    assert list(packets.of(b"\x00\x01\x00\x00")) == []
    with pytest.raises(TooLong):
        list(PacketReader().of(b"\x00\x01\x00\x01"))
