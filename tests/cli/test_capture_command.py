"""`testbed capture` on a fabric that runs."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.capture import command
from testbed.engines.fabric.start import FabricConversation
from testbed.errors import UsageProblem
from tests.cli.live_run import live_run

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
        opened = [os.readlink(each) for each in Path(f"/proc/{fabric.pid}/fd").iterdir()]
    assert (tmp_path / "a.1.pcap").stat().st_size == 24
    assert opened
    assert not [each for each in opened if each.endswith(".pcap")]


@pytest.mark.parametrize(("words", "said"), [(("nobody",), "no node nobody"), (("a",), "2 nodes")])
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
