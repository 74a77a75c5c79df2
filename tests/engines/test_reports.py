"""What the fabric writes down about itself."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.engines.fabric import traffic_log
from testbed.engines.fabric.data_plane import BACKLOG, Figures, PortFigures
from testbed.engines.fabric.delays import ABSENT_S, limits
from testbed.engines.fabric.health import why_overloaded
from testbed.engines.fabric.histogram import Histogram
from testbed.engines.fabric.python_plane.delay_counts import DelayCounts
from testbed.engines.fabric.python_plane.forwarder import Forwarder
from testbed.engines.fabric.traffic_log import PAIRS_EVERY, TrafficLog
from testbed.network.graph import expand
from testbed.plan.addresses import address
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from tests.engines.test_frames import super_segment
from tests.engines.world import pair

SIZE_BYTES = 2896


def lines_of(folder: Path, busy: Sequence[int], seconds: int) -> list[dict[str, Any]]:
    """At half the speed, two packets in each busy second; a report in the middle of every second, and a last one."""
    network = expand(load_bytes(pair("10ms", "10Mbps").encode(), Form.YAML, "test").require())
    forwarder = Forwarder(
        network, [socket.inet_aton(address(rank)) for rank in range(2)], seed=1, mtu=1500, time_scale=2.0
    )
    written = TrafficLog(folder / "links.jsonl", network)
    for second in range(seconds):
        if second in busy:
            forwarder.offer(float(second), 0, super_segment(SIZE_BYTES))
        assert len(list(forwarder.advance(second + 0.5))) == (2 if second in busy else 0)
        written.write(second + 0.5, forwarder.packets.snapshot(), 2.0)
    written.write(99.0, forwarder.packets.snapshot(), 2.0, is_last=True)
    written.close()
    return [json.loads(line) for line in (folder / "links.jsonl").read_text().splitlines()]


CARRIED = {"bytes": 3000, "packets": 2}
# One of the two packets waited for the other: 1.2 ms at the rate of the link, in emulated time.
LINK = {"origin": "n.0", "dest": "n.1", "link": 0, **CARRIED, "queue_mean_ms": 0.6, "queue_max_ms": 1.2}
PAIR = {"origin": 0, "dest": 1, **CARRIED, "arrived_bytes": 3000, "arrived_packets": 2, "queue_mean_ms": 0.6}


def test_lines_have_what_happened_in_the_seconds_that_they_name(tmp_path: Path) -> None:
    """And what is silent has none: the second that is busy after that is no longer for it."""
    first, then = lines_of(tmp_path, busy=(0, 7), seconds=9)
    assert first == {"t": 0.5, "seconds": 0.25, "links": [LINK], "pairs": [PAIR], "pairs_seconds": 0.25}
    assert then == {"t": 7.5, "seconds": 0.5, "links": [LINK], "pairs": [PAIR], "pairs_seconds": 0.5}


def test_a_great_many_pairs_are_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_log, "MANY_PAIRS", 0)
    lines = lines_of(tmp_path, busy=(0, 2, PAIRS_EVERY + 1), seconds=PAIRS_EVERY + 2)
    assert [line["t"] for line in lines] == [0.5, 2.5, PAIRS_EVERY - 0.5, PAIRS_EVERY + 1.5, 99.0]
    twice = {"bytes": 6000, "packets": 4, "arrived_bytes": 6000, "arrived_packets": 4}
    assert [line.get("pairs") for line in lines] == [None, None, [{**PAIR, **twice}], None, [PAIR]]
    assert [line.get("pairs_seconds") for line in lines] == [None, None, (PAIRS_EVERY - 0.5) / 2, None, 0.5]


def test_the_waiting_of_a_pair_is_that_of_its_packets_which_were_not_dropped(tmp_path: Path) -> None:
    """Thirty packets at 1.2 ms each meet a queue for 10 ms: nine wait, the longest for 9.6 ms, and 21 find no room."""
    network = expand(load_bytes(pair("10ms", "10Mbps", queue="10ms").encode(), Form.YAML, "test").require())
    forwarder = Forwarder(network, [socket.inet_aton(address(rank)) for rank in range(2)], seed=1, mtu=1500)
    written = TrafficLog(tmp_path / "links.jsonl", network)
    forwarder.offer(0.0, 0, super_segment(30 * 1448))
    assert sum(each.packets for each in forwarder.advance(1.0)) == 9
    written.write(1.0, forwarder.packets.snapshot(), 1.0)
    written.close()
    (found,) = json.loads((tmp_path / "links.jsonl").read_text())["pairs"]
    assert (found["packets"], found["arrived_packets"], found["dropped_packets"]) == (30, 9, 21)
    assert found["queue_mean_ms"] == pytest.approx(1.2 * sum(range(9)) / 9)


def counted(*late_s: float) -> Histogram:
    counts = Histogram()
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


class Delays(DelayCounts):
    """Counted at a time scale."""

    def __init__(self, scale: float) -> None:
        super().__init__(limits(scale), 0.0)
        self.scale = scale


def delays(
    *, late_s: Sequence[float] = (), idle_s: Sequence[float] = (), latency_s: float = 0.01, scale: float = 1.0
) -> Delays:
    made = Delays(scale)
    for each in late_s:
        made.written(each, latency_s, 2)
    for each in idle_s:
        made.read(each, each, 10.0)  # on such a way it is a small part
    return made


def delayed(*added_s: float, latency_s: float = 0.01, scale: float = 1.0) -> Delays:
    """By frames that waited in devices while their links had nothing to send, too short each time to be told."""
    made = Delays(scale)
    for each in added_s:
        made.read(1e-5, each, latency_s)
    return made


def why(made: Delays, *, backlog: int = 0, unwritten: int = 0, now_s: float = 100.0) -> tuple[str, ...]:
    failed = {"absent": 9, "read EBADF": 9, "write EIO": unwritten}
    port = PortFigures(True, 0, 0, 0, {BACKLOG: backlog, "malformed": 9}, failed)
    return why_overloaded(Figures([port], 0, 0, made.figures()), made.scale, now_s)


GOOD = [1e-4] * 1000


def test_packets_that_are_late_make_a_run_overloaded() -> None:
    late = [*GOOD, *[3e-3] * 20]
    assert not why(delays(late_s=GOOD))
    assert "1.96% of the packets were later" in why(delays(late_s=late))[0]
    assert not why(delays(late_s=[*GOOD, *[3e-3] * 9])), "one in a hundred may be"
    assert not why(delays(late_s=late, scale=2.0)), "twice as late is as good at half the speed"
    assert not why(delays(late_s=late, latency_s=0.1)), "on a long way it is a small part"
    assert why(delays(late_s=late, latency_s=0.05))
    assert "0.60%" in why(delays(late_s=[*GOOD, *[0.05] * 6]))[0]
    assert not why(delays(late_s=[1.0] * 5)), "ten packets may be, in any run"
    assert why(delays(late_s=[1.0] * 6))


def test_a_fabric_that_does_not_keep_up_makes_a_run_overloaded() -> None:
    slow = [*GOOD, *[0.008] * 20]
    assert not why(delays(idle_s=GOOD))
    assert "1.96% of the frames" in why(delays(idle_s=slow))[0]
    assert not why(delays(idle_s=slow, scale=2.0))
    assert not why(delays(idle_s=[*GOOD, *[0.008] * 9]))
    assert "7 packets" in why(delays(late_s=GOOD), backlog=7)[0]
    assert "3 packets could not be written" in why(delays(late_s=GOOD), unwritten=3)[0]


def test_frames_that_wait_in_devices_make_a_run_overloaded() -> None:
    slow = [*GOOD, *[0.004] * 20]
    (told,) = why(delayed(*slow))
    assert told.startswith(
        "packets waited 4 ms (p99) in nodes' devices before the fabric read them, 1.96% of the frames"
    )
    assert "more than 2 ms and 10% of their path's latency (at most 1% may)" in told
    assert not why(delayed(*[*GOOD, *[0.004] * 9])), "one in a hundred may"
    assert not why(delayed(*slow, scale=2.0)), "twice as much is as good at half the speed"
    assert "packets waited 4 ms (p99)" in why(delayed(*GOOD, *[0.008] * 20, scale=2.0))[0]
    assert not why(delayed(*slow, latency_s=0.041)), "on a long way it is a small part"
    assert why(delayed(*slow, latency_s=0.039))
    assert not why(delayed(*[1.0] * 10)), "ten frames may, in any run"
    assert why(delayed(*[1.0] * 11))


def test_what_waiting_in_devices_adds_on_average_makes_a_run_overloaded() -> None:
    (told,) = why(delayed(*[0.6e-3] * 100))
    assert told.startswith("packets waited 0.6 ms on average in nodes' devices before the fabric read them")
    assert not why(delayed(*[0.49e-3] * 100)), "less is what machines take"
    assert not why(delayed(*[0.6e-3] * 100, latency_s=0.031)), "on a long way it is a small part"
    assert why(delayed(*[0.6e-3] * 100, latency_s=0.029))
    assert not why(delayed(*[0.9e-3] * 100, scale=2.0))
    assert "0.6 ms on average" in why(delayed(*[1.2e-3] * 100, scale=2.0))[0]
    assert not why(delayed(*[0.6e-3] * 10)), "ten frames may, in any run"


def test_long_delays_have_percentiles_too() -> None:
    told = counted(*(place / 1e3 for place in range(1, 1001))).told()
    assert told.p50_ms == pytest.approx(500, abs=2)
    assert told.p99_ms == pytest.approx(990, abs=2)
    assert counted(*[3.0] * 99, 7.0).told().p50_ms == 7000.0, "beyond two seconds only the maximum is known"


def test_a_fabric_that_stands_still_makes_a_run_overloaded_though_hardly_a_packet_is_late() -> None:
    made = delays(late_s=GOOD)
    for _ in range(4):
        made.overslept(0.2)
    for _ in range(1000):
        made.overslept(ABSENT_S / 2)
    assert made.figures().absent_s == pytest.approx(0.8)
    assert not why(made, now_s=100.0)
    assert "no processor for 0.8 s of 50 s" in why(made, now_s=50.0)[0]
    made.overslept(0.6)
    assert "0.60 s at once" in why(made, now_s=10_000.0)[0]
