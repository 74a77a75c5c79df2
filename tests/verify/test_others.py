"""What ping and iperf3 say: read, judged by the same bounds, and found wrong on a network that is."""

from __future__ import annotations

import json

import pytest
import yaml

from testbed.engines.namespace import TcpSettings
from testbed.network.graph import expand
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.verify.judge import Row, Verdict
from testbed.verify.needs import Effort
from testbed.verify.network import running_network
from testbed.verify.others import IPERF, PING, iperfs, pings, received
from testbed.verify.pairs import choose_pairs
from testbed.verify.places import make_place
from testbed.verify.plan import Plan
from testbed.verify.prepare import config_for
from testbed.verify.tools import ToolFailed, installed
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
        make_place() as place,
        running_network(config_for(real, 1, place.folder), plan.ranks, place, "up", TcpSettings()) as running,
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
