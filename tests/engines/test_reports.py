"""What the fabric writes down about itself."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from testbed.engines.fabric.accounts import PAIRS_EVERY, Accounts
from testbed.engines.fabric.carrier import Carrier
from testbed.engines.fabric.health import FEWEST_PACKETS, why_overloaded
from testbed.engines.fabric.lateness import LatenessCounts
from testbed.network.graph import expand
from testbed.plan.addresses import address
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from tests.engines.test_frames import super_segment
from tests.engines.world import pair


def test_lines_have_what_happened_since_the_line_before(tmp_path: Path) -> None:
    topology = load_bytes(pair("10ms", "10Mbps").encode(), Form.YAML, "test").require()
    network = expand(topology)
    carrier = Carrier(network, [socket.inet_aton(address(rank)) for rank in range(2)], seed=1, mtu=1500, time_scale=2.0)
    accounts = Accounts(tmp_path / "links.jsonl", network)
    for second in range(PAIRS_EVERY):
        if second in (0, 2):
            carrier.offer(float(second), 0, super_segment(2896))
        assert len(list(carrier.advance(second + 0.5))) == (2 if second in (0, 2) else 0)
        accounts.write(second + 0.5, carrier.packets.snapshot(), 2.0)
    accounts.write(99.0, carrier.packets.snapshot(), 2.0, is_last=True)
    accounts.close()
    lines = [json.loads(line) for line in (tmp_path / "links.jsonl").read_text().splitlines()]
    # One of the two packets waited for the other: 1.2 ms at the rate of the link, in emulated time.
    link = {"origin": "n.0", "dest": "n.1", "link": 0, "bytes": 3000, "packets": 2}
    waited = {"queue_mean_ms": 0.6, "queue_max_ms": 1.2}
    assert [(line["t"], line["links"]) for line in lines] == [
        (0.5, [{**link, **waited}]),
        (2.5, [{**link, **waited}]),
        (PAIRS_EVERY - 0.5, []),
    ]
    carried = {"bytes": 6000, "packets": 4, "arrived_bytes": 6000, "arrived_packets": 4}
    assert lines[-1]["pairs"] == [{"origin": 0, "dest": 1, **carried}]


def counted(*late_s: float) -> LatenessCounts:
    counts = LatenessCounts()
    for each in late_s:
        counts.add(each)
    return counts


def test_percentiles_are_upper_ends_of_steps_and_never_above_the_maximum() -> None:
    told = counted(*(place / 1e5 for place in range(1, 101))).told()
    assert told.count == 100
    assert told.p50_ms == pytest.approx(0.5, abs=0.021)
    assert told.p99_ms == pytest.approx(0.99, abs=0.021)
    assert told.max_ms == 1.0
    assert counted(5.0, 0.1).told().p99_ms == 5000.0
    assert counted().told().p99_ms == 0.0


def test_what_makes_a_run_overloaded() -> None:
    good = [1e-4] * FEWEST_PACKETS
    late = counted(*good, *[3e-3] * 20)

    def why(counts: LatenessCounts, backlog: int = 0, scale: float = 1.0) -> tuple[str, ...]:
        return why_overloaded(counts.told(), counts.percentile_s(0.999) * 1e3, backlog, scale)

    assert not why(counted(*good))
    assert "3.0 ms" in why(late)[0]
    assert not why(late, scale=2.0), "twice as late is as good at half the speed"
    assert "0.1%" in why(counted(*good, *[0.05] * 3))[0]
    assert not why(counted(*[1.0] * (FEWEST_PACKETS - 1))), "too few to tell"
    assert "7 packets" in why(counted(*good), backlog=7)[0]
