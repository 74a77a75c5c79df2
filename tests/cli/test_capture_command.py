"""`testbed capture` on a fabric that runs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.capture import command
from testbed.engines.attach import join_network
from testbed.engines.fabric.start import FabricConversation
from testbed.engines.namespace import TcpSettings
from testbed.errors import UsageProblem
from testbed.protocol.fabric import Capture, Denied, Done
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.process_records import read_record
from tests.cli.live_run import live_run
from tests.engines.world import Child, echo_times, needs_network
from tests.runtimes.scratch_run import until

pytestmark = pytest.mark.processes

PCAP_NANOSECONDS = 0xA1B23C4D
RAW_IP = 101


def test_a_file_that_wireshark_opens(tmp_path: Path) -> None:
    with live_run(tmp_path) as (run, _):
        path = tmp_path / "one.pcap"
        result = CliRunner().invoke(command, [str(run.path), "a.0", "-o", str(path), "--for", "100ms"])
        assert result.exit_code == 0, result.output
        assert struct.unpack_from("=I", path.read_bytes())[0] == PCAP_NANOSECONDS
        assert struct.unpack_from("=I", path.read_bytes(), 20)[0] == RAW_IP
        assert not result.stdout
        assert str(path) in result.stderr


def test_ctrl_c_ends_it_in_good_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: FabricConversation) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FabricConversation, "notes", interrupted)
    monkeypatch.chdir(tmp_path)
    with live_run(tmp_path) as (run, fabric):
        result = CliRunner().invoke(command, [str(run.path), "a.1", "--for", "50ms"])
        assert result.exit_code == 0, result.output
        assert not captured_into(fabric.pid)
    assert (tmp_path / "a.1.pcap").stat().st_size == 24


@pytest.mark.parametrize(("words", "said"), [(("nobody",), "there is no node `nobody`"), (("a",), "2 nodes")])
def test_whom(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    with live_run(tmp_path) as (run, _):
        result = CliRunner().invoke(command, [str(run.path), *words, "--for", "100ms"])
    assert isinstance(result.exception, UsageProblem)
    assert said in result.exception.message


def test_where_it_cannot_write(tmp_path: Path) -> None:
    with live_run(tmp_path) as (run, _):
        missing = tmp_path / "no" / "such.pcap"
        result = CliRunner().invoke(command, [str(run.path), "a.0", "-o", str(missing), "--for", "100ms"])
    assert isinstance(result.exception, UsageProblem)
    assert "cannot write" in result.exception.message


def captured_into(fabric: int) -> list[str]:
    opened = []
    for each in Path(f"/proc/{fabric}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has just been closed
            opened.append(os.readlink(each))
    assert opened
    return [each for each in opened if each.endswith(".pcap")]


@contextmanager
def capturing(run: RunDirectory, node: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "testbed", "capture", str(run.path), node, "-o", str(path)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert f"capturing {node}" in process.stderr.readline()
            yield process
        finally:
            process.kill()


def test_a_capture_ends_with_whoever_asked_for_it_however_that_ends(tmp_path: Path) -> None:
    with live_run(tmp_path) as (run, fabric):
        with capturing(run, "a.0", tmp_path / "one.pcap") as process:
            assert captured_into(fabric.pid) == [str(tmp_path / "one.pcap")]
            process.kill()
            process.wait()
            until(lambda: not captured_into(fabric.pid))
        again = CliRunner().invoke(command, [str(run.path), "a.0", "-o", str(tmp_path / "two.pcap"), "--for", "50ms"])
        assert again.exit_code == 0, again.output


def test_nobody_ends_or_spoils_somebody_elses(tmp_path: Path) -> None:
    with live_run(tmp_path) as (run, fabric), capturing(run, "a.0", tmp_path / "one.pcap"):
        (tmp_path / "same.pcap").symlink_to("one.pcap")
        for node, file, said in (
            ("a.0", "two.pcap", "the node's packets are being captured already"),
            ("a.1", "one.pcap", "another node's packets are being captured into"),
            ("a.1", "same.pcap", "another node's packets are being captured into"),
        ):
            result = CliRunner().invoke(command, [str(run.path), node, "-o", str(tmp_path / file), "--for", "50ms"])
            assert isinstance(result.exception, UsageProblem)
            assert said in result.exception.message
        conversation = fabric.connect()
        assert isinstance(conversation.ask(partial(Capture, rank=0)), Denied)
        assert isinstance(conversation.ask(partial(Capture, rank=1)), Done)  # there is none to end
        assert captured_into(fabric.pid) == [str(tmp_path / "one.pcap")]
        other = CliRunner().invoke(command, [str(run.path), "a.1", "-o", str(tmp_path / "two.pcap"), "--for", "50ms"])
        assert other.exit_code == 0, other.output
        assert not (tmp_path / "two.pcap").read_bytes()[24:]


def packets(pcap: bytes) -> list[bytes]:
    """What a reader of the format finds."""
    found, at = [], 24
    while at < len(pcap):
        _, nanoseconds, kept, whole = struct.unpack_from("=IIII", pcap, at)
        assert nanoseconds < 1_000_000_000
        assert kept == whole
        found.append(pcap[at + 16 : at + 16 + kept])
        assert len(found[-1]) == kept
        at += 16 + kept
    return found


@needs_network
def test_every_packet_of_a_node_is_there_once(tmp_path: Path) -> None:
    with live_run(tmp_path) as (run, _):
        record = read_record(run)
        assert record is not None
        there = [
            Child(rank, Path(record.sockets), work, join_network, None, TcpSettings())
            for rank, work in enumerate((echo_times("198.18.0.2", 60, 0.02), lambda: None))
        ]
        try:
            path = tmp_path / "one.pcap"
            there[0].start()
            result = CliRunner().invoke(command, [str(run.path), "a.1", "-o", str(path), "--for", "1s"])
            assert result.exit_code == 0, result.output
            assert len(there[0].result()) == 60
        finally:
            for child in there:
                child.end()
    kinds = [each[20] for each in packets(path.read_bytes()) if each[9] == 1]
    assert set(kinds) == {0, 8}
    assert abs(kinds.count(8) - kinds.count(0)) <= 1  # it may begin or end between the two
    assert 5 <= kinds.count(8) <= 60
