"""The fabric as a process: how it starts, ends, and what it refuses to start with."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import testbed.network.paths  # noqa: F401 - another user may not be able to read it later
from testbed.engines.fabric.config import FILE, FabricConfig, read_config, write_config
from testbed.engines.fabric.fabric import Fabric
from testbed.engines.fabric.planes import PLANES
from testbed.engines.fabric.start import FabricConversation, start_fabric
from testbed.errors import CouldNotStart, InvalidInput, UsageProblem
from testbed.protocol.fabric import Capture, FabricStatus, GetStatus, Quit
from tests.engines.world import NOBODY, configuration, pair, world
from tests.marking import network_denied

PCAP_HEADER_BYTES = 24


@pytest.mark.processes
def test_it_ends_within_a_second_and_leaves_files_but_no_sockets(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s")
    fabric = start_fabric(config, tmp_path / "f")
    assert config.control_socket.is_socket()
    os.kill(fabric.pid, signal.SIGTERM)
    assert fabric.process.wait(1.0) == 0
    assert json.loads((tmp_path / "engine" / "health.json").read_text())["overloaded"] == []
    assert (tmp_path / "engine" / "links.jsonl").read_text() == ""
    assert not config.control_socket.exists()
    assert not config.node_socket(0).exists()
    assert fabric.stop() == 0


@pytest.mark.processes
@pytest.mark.parametrize("data_plane", PLANES)
def test_it_ends_in_good_order_though_packets_are_being_captured(tmp_path: Path, data_plane: str) -> None:
    config = msgspec.structs.replace(configuration(pair(), tmp_path, tmp_path / "s"), data_plane=data_plane)
    fabric = start_fabric(config, tmp_path / "f")
    fabric.connect().ask(lambda number: Capture(number, 0, str(tmp_path / "a.pcap")))
    os.kill(fabric.pid, signal.SIGTERM)
    assert fabric.process.wait(5.0) == 0
    assert (tmp_path / "a.pcap").stat().st_size == PCAP_HEADER_BYTES
    assert not config.control_socket.exists()
    fabric.stop()


@pytest.mark.processes
def test_it_ends_when_asked_to_and_with_whoever_leads(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s")
    fabric = start_fabric(config, tmp_path / "f")
    fabric.connect().ask(Quit)
    assert fabric.process.wait(1.0) == 0
    fabric.stop()
    if network_denied():
        return
    with world(pair(), tmp_path / "w") as made:
        other = made.fabric.connect()
        other.close()
        time.sleep(0.1)
        assert made.fabric.is_alive()
        made.control.close()
        assert made.fabric.process.wait(1.0) == 0


PARENT = """
import os, sys, time
from pathlib import Path
from testbed.engines.fabric.config import read_config
from testbed.engines.fabric.start import start_fabric
folder = Path(sys.argv[1])
print(start_fabric(read_config(folder), folder).pid, flush=True)
time.sleep(60)
"""


@pytest.mark.processes
def test_it_ends_with_its_parent_though_nobody_leads_it_yet(tmp_path: Path) -> None:
    """In good order: its files are whole, its sockets gone."""
    config = configuration(pair(), tmp_path, tmp_path / "s")
    write_config(tmp_path, config)
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        fabric = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert config.control_socket.is_socket()
            assert not select.select([fabric], [], [], 0.2)[0]
            parent.kill()
            assert select.select([fabric], [], [], 10.0)[0]
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fabric, signal.SIGKILL)
            os.close(fabric)
    assert not config.control_socket.exists()
    assert (tmp_path / "engine" / "health.json").exists()


@pytest.mark.processes
def test_it_does_not_begin_without_its_parent(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s")
    write_config(tmp_path, config)
    words = [sys.executable, "-m", "testbed.engines.fabric", str(tmp_path), str(os.getppid())]
    Path(config.engine).mkdir()
    said = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (1, b"", b"")
    assert not config.control_socket.exists()
    usage = subprocess.run(words[:-1], capture_output=True, check=False)
    assert (usage.returncode, b"FOLDER PARENT" in usage.stderr) == (2, True)


@pytest.mark.processes
def test_after_a_kill_another_takes_its_place(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s")
    first = start_fabric(config, tmp_path / "f")
    first.process.kill()
    assert first.stop() == -signal.SIGKILL
    second = start_fabric(config, tmp_path / "f")
    assert isinstance(second.connect().ask(GetStatus), FabricStatus)
    assert second.stop() == 0


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="testbed-test-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_an_ordinary_user_can_run_it(anybodys: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("every other test here ran it as an ordinary user")
    config = configuration(pair(), anybodys, anybodys / "s")
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            Path(config.engine).mkdir()
            fabric = Fabric(config)
            fabric.run()
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(500):  # 25 s: a busy machine takes its time
        if config.control_socket.exists():
            break
        time.sleep(0.05)
    conversation = FabricConversation(config.control_socket)
    assert isinstance(conversation.ask(GetStatus), FabricStatus)
    conversation.ask(Quit)
    conversation.close()
    assert os.waitpid(child, 0)[1] == 0
    assert (Path(config.engine) / "health.json").stat().st_uid == NOBODY


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"time_scale": 0.0},
        {"mtu": 100},
        {"nodes": [{"name": "n.0", "address": "198.18.0.1"}] * 2},
        {"nodes": [{"name": "n.0", "address": "somewhere"}]},
        {"more": 1},
        {"seed": "one"},
    ],
)
def test_a_configuration_with_errors_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s")
    path = write_config(tmp_path, config)
    assert read_config(tmp_path) == config
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    with pytest.raises(InvalidInput):
        read_config(tmp_path)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_no_file_is_too_bad(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem):
        read_config(tmp_path)
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(InvalidInput):
        read_config(tmp_path)


@pytest.mark.processes
def test_why_it_did_not_start_is_told(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s")
    wrong: FabricConfig = msgspec.structs.replace(config, nodes=config.nodes[:1])
    with pytest.raises(CouldNotStart, match="the topology has 2 nodes, the plan 1"):
        start_fabric(wrong, tmp_path / "f")
    broken: FabricConfig = msgspec.structs.replace(config, topology={"services": 3})
    with pytest.raises(CouldNotStart, match="did not start"):
        start_fabric(broken, tmp_path / "g")
