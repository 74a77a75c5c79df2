"""What ping and iperf3 say: read, judged by the same bounds, and found wrong on a network that is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from testbed.engines.namespace import TcpSettings
from testbed.network.graph import expand
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.verify.judge import Row, Verdict
from testbed.verify.network import Running, running_network
from testbed.verify.pairs import choose_pairs
from testbed.verify.ping_iperf3 import IPERF, PING, iperfs, pings, received
from testbed.verify.plan import Plan
from testbed.verify.prepare import config_for
from testbed.verify.sizing import Effort
from testbed.verify.tools import ToolFailed, installed, wait_for_listener
from testbed.verify.work_folder import make_work_folder
from tests.engines.world import needs_network

TOOLS = installed()
needs_ping = pytest.mark.skipif(TOOLS.ping is None, reason="ping is not installed")
needs_iperf = pytest.mark.skipif(TOOLS.iperf3 is None, reason="iperf3 is not installed")


def test_what_iperf3_prints() -> None:
    tcp = {"end": {"sum_sent": {"bits_per_second": 9e6}, "sum_received": {"bits_per_second": 8e6}}}
    assert received(json.dumps(tcp), is_udp=False) == 8e6
    udp = {"end": {"sum": {"bits_per_second": 20e6}, "sum_received": {"bits_per_second": 9e6, "bytes": 1000}}}
    assert received(json.dumps(udp), is_udp=True) == 9e6
    older = {"end": {"sum": {"bits_per_second": 20e6, "lost_percent": 55.0}}}
    assert received(json.dumps(older), is_udp=True) == pytest.approx(9e6)


@pytest.mark.parametrize("printed", ["", "{}", '{"end": {}}', '{"end": {"sum_received": {}}}', "[]"])
def test_nonsense_is_not_believed(printed: str) -> None:
    with pytest.raises(ToolFailed):
        received(printed, is_udp=False)


def topology(one: str, other: str) -> Topology:
    document = {
        "services": {"n": {"replicas": 4}},
        "links": [
            {"from": "n.0", "to": "n.1", "latency": "10ms", "rate": one, "queue": "30ms"},
            {"from": "n.2", "to": "n.3", "latency": other, "rate": "5Mbps", "queue": "30ms", "loss": "5%"},
        ],
    }
    return load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "others").require()


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    """The first link's rate is wrong by 30 %, and the second's latency; the rest is right."""
    asked, real = topology("20Mbps", "20ms"), topology("14Mbps", "26ms")
    plan = Plan(choose_pairs(expand(asked), 2, seed=1), None, Effort(echoes=40), None, TOOLS)
    found: list[Row] = []
    with (
        make_work_folder() as work,
        running_network(config_for(real, 1, work.folder), plan.ranks, work, "up", TcpSettings()) as running,
    ):
        if TOOLS.ping is not None:
            found += pings(plan, TOOLS.ping, running)
        if TOOLS.iperf3 is not None:
            found += iperfs(plan, TOOLS.iperf3, running)
    return {(row.pair, row.what): row for row in found}


@needs_network
@needs_ping
def test_ping(rows: dict[tuple[str, str], Row]) -> None:
    assert rows["n.0 → n.1", PING].verdict is Verdict.OK
    assert rows["n.2 → n.3", PING].verdict is Verdict.WRONG


@needs_network
@needs_iperf
def test_iperf3(rows: dict[tuple[str, str], Row]) -> None:
    assert rows["n.0 → n.1", IPERF].verdict is Verdict.WRONG
    assert rows["n.2 → n.3", IPERF].verdict is Verdict.OK
    assert "UDP" in rows["n.2 → n.3", IPERF].detail


# -- programs that fail ------------------------------------------------------------------------------------------------

ANSWERS = "64 bytes from 198.18.0.2: icmp_seq=1 ttl=64 time={:.2f} ms\n"
STATISTICS = "1 packets transmitted, 1 received\n"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Running:
    """No network at all: programs that only play ping and iperf3 are run where this process is."""
    monkeypatch.setattr("testbed.verify.tools.enter_network", lambda _: None)
    nodes = SimpleNamespace(pid=lambda _: os.getpid())
    return cast(Running, SimpleNamespace(nodes=nodes, addresses=["198.18.0.1"] * 4))


def a_plan() -> Plan:
    return Plan(choose_pairs(expand(topology("20Mbps", "20ms")), 2, seed=1), None, Effort(echoes=1), None, TOOLS)


def program(folder: Path, *lines: str) -> str:
    path = folder / "played"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("status", [1, 2])
@pytest.mark.processes
def test_a_ping_that_refuses_its_arguments_has_measured_nothing(status: int, tmp_path: Path, here: Running) -> None:
    """Whatever status it ends with; what it says is told, and is no verdict about the network."""
    why = "ping: cannot flood, minimal interval allowed for user is 200ms"
    rows = pings(a_plan(), program(tmp_path, f"echo '{why}' >&2", f"exit {status}"), here)
    assert [row.verdict for row in rows] == [Verdict.UNMEASURED] * 2
    assert {row.detail for row in rows} == {f"played: {why}"}


@pytest.mark.processes
def test_a_ping_without_answers_has_measured_that(tmp_path: Path, here: Running) -> None:
    rows = pings(a_plan(), program(tmp_path, "echo '1 packets transmitted, 0 received'", "exit 1"), here)
    assert [row.verdict for row in rows] == [Verdict.WRONG] * 2


@pytest.mark.processes
def test_one_ping_that_fails_takes_nothing_from_the_others(tmp_path: Path, here: Running) -> None:
    plan = a_plan()
    right = ANSWERS.format(plan.pairs[0].probe_round_trip_s(84) * 1e3)
    fails = f'case "$*" in *"-W {2 * plan.pairs[1].round_trip_s + 0.2:.3f}"*) exit 2;; esac'
    rows = pings(plan, program(tmp_path, fails, f"printf '{right}{STATISTICS}'"), here)
    assert [row.verdict for row in rows] == [Verdict.OK, Verdict.UNMEASURED]
    assert rows[1].detail == "played: exit status 2"


@pytest.mark.processes
def test_what_was_wrong_stays_so_when_the_second_look_fails(tmp_path: Path, here: Running) -> None:
    once = f"mkdir {tmp_path}/$PPID.$(echo $* | md5sum | cut -c-8) 2>/dev/null || exit 2"
    rows = pings(a_plan(), program(tmp_path, once, f"printf '{ANSWERS.format(900)}{STATISTICS}'"), here)
    assert [row.verdict for row in rows] == [Verdict.WRONG] * 2


@pytest.mark.processes
def test_what_cannot_be_started_has_measured_nothing(tmp_path: Path, here: Running) -> None:
    for rows in (pings(a_plan(), str(tmp_path / "none"), here), iperfs(a_plan(), str(tmp_path / "none"), here)):
        assert [row.verdict for row in rows] == [Verdict.UNMEASURED] * 2
        assert all(row.detail.startswith("none cannot be started: ") for row in rows)


@pytest.mark.processes
def test_an_iperf3_that_fails_has_measured_nothing(tmp_path: Path, here: Running) -> None:
    rows = iperfs(a_plan(), program(tmp_path, "echo 'unable to start listener' >&2", "exit 1"), here)
    assert {(row.verdict, row.detail) for row in rows} == {(Verdict.UNMEASURED, "played: unable to start listener")}


LISTENS_LATE = """
import socket, sys, time
time.sleep(float(sys.argv[1]))
server = socket.create_server(("", int(sys.argv[2])))
time.sleep(60)
"""


def listener(port: int, after_s: float = 0.0) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", LISTENS_LATE, str(after_s), str(port)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.processes
def test_a_server_is_waited_for_until_it_listens() -> None:
    with socket.create_server(("", 0)) as free:
        port: Any = free.getsockname()[1]
    process = listener(port, 0.5)
    try:
        wait_for_listener(process, port, time.monotonic() + 20.0)
        socket.create_connection(("127.0.0.1", port), 5.0).close()
        with pytest.raises(ToolFailed, match="takes no connections"):
            wait_for_listener(process, port + 1, time.monotonic() + 0.1)
        process.kill()
        process.wait()  # until its socket is gone, too
        with pytest.raises(ToolFailed, match="exit status -9"):
            wait_for_listener(process, port, time.monotonic() + 20.0)
    finally:
        process.kill()
        process.communicate()
