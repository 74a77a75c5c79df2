"""The packet model: what every property of a link does to packets, and what is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.network.graph import Network
from testbed.network.packets import Arrival, Packets
from testbed.seeds import stream
from tests.network.test_flows import network_from

pytestmark = pytest.mark.usefixtures("_each_model")

MTU = 1500


def pair(more: str = "", latency: str = "20ms", rate: str = "12Mbps") -> Network:
    """Two nodes and a link; a packet of 1500 bytes takes 1 ms at its rate."""
    return network_from(
        f"services: {{a: {{}}, b: {{}}}}\nlinks:\n  - {{from: a, to: b, latency: {latency}, rate: {rate}{more}}}\n"
    )


def line(*links: str) -> Network:
    """Two nodes with bridges between them, and the links' properties in order."""
    bridges = [f"x{number}" for number in range(1, len(links))]
    ends = ["a", *bridges, "b"]
    text = f"services: {{a: {{}}, b: {{}}}}\nbridges: [{', '.join(bridges)}]\nlinks:\n"
    for one, other, properties in zip(ends[:-1], ends[1:], links, strict=True):
        text += f"  - {{from: {one}, to: {other}, {properties}}}\n"
    return network_from(text)


def finish(packets: Packets) -> list[Arrival]:
    """Everything that is still to arrive."""
    found: list[Arrival] = []
    while (next_s := packets.next_s()) < math.inf:
        found += packets.advance(next_s)
    return found


def times(arrivals: Sequence[Arrival]) -> list[float]:
    return [arrival.due_s for arrival in arrivals for _ in arrival.pieces]


def flood(packets: Packets, rate: float, seconds: float, size: int = MTU) -> dict[int, float]:
    """Packets from 0 to 1 at a constant rate in packets per second: when each is offered."""
    offered = {}
    for number in range(int(rate * seconds)):
        at_s = number / rate
        segment = packets.offer(at_s, 0, 1, [size])
        assert segment is not None
        offered[segment] = at_s
    return offered


def test_every_piece_passes_every_link_though_those_before_it_are_two_links_ahead() -> None:
    fast = "rate: unlimited"
    packets = Packets(
        line(
            "latency: 0ms, rate: 12Mbps", f"latency: 0.7ms, {fast}", f"latency: 0.7ms, {fast}", f"latency: 1ms, {fast}"
        ),
        seed=1,
        window_s=0.0,
    )
    packets.offer(0.0, 0, 1, [MTU] * 3)
    found = [arrival for step in range(120) for arrival in packets.advance(step * 0.00005)]
    assert times(found) == pytest.approx([0.0034, 0.0044, 0.0054])
    assert packets.snapshot().links.packets.tolist() == [3] * 4


def test_a_short_packet_is_expected_though_a_long_one_before_it_finds_the_queue_full() -> None:
    network = network_from(
        "services: {a: {}, b: {}, c: {}}\nbridges: [x]\nlinks:\n"
        "  - {from: a, to: x, latency: 0ms, rate: 12Mbps, queue: 0.2ms}\n"
        "  - {from: x, to: b, latency: 0ms, rate: unlimited}\n"
        "  - {from: x, to: c, latency: 1s, rate: unlimited}\n"
    )
    packets = Packets(network, seed=1)
    packets.offer(0.0, 0, 2, [MTU])
    packets.advance(0.0)
    packets.offer(0.00075, 0, 1, [MTU])
    packets.offer(0.00085, 0, 1, [60])
    assert packets.next_s() <= 0.00104
    assert times(finish(packets)) == pytest.approx([0.00104, 1.001])


def test_an_idle_path_takes_its_latencies_and_a_transmission_on_every_link() -> None:
    packets = Packets(
        line("latency: 1ms, rate: 12Mbps", "latency: 20ms, rate: 120Mbps", "latency: 3ms, rate: unlimited"), seed=1
    )
    assert packets.offer(5.0, 0, 1, [MTU]) == 0
    assert packets.next_s() <= 5.0251
    (arrival,) = finish(packets)
    assert arrival == Arrival(0, 0, 1, arrival.due_s, (0,), 0.024)
    assert arrival.due_s == pytest.approx(5.0251, abs=1e-12)
    assert packets.next_s() == math.inf


@pytest.mark.parametrize(("share", "latency", "together"), [(0.0, "100ms", 2), (0.01, "100ms", 10), (0.01, "10s", 10)])
def test_on_long_ways_more_pieces_are_handed_over_together(share: float, latency: str, together: int) -> None:
    """A piece takes 0.1 ms here; the window is 0.2 ms, or a part of the latency, and never more than 1 ms."""
    packets = Packets(pair(latency=latency, rate="120Mbps"), seed=1, window_share=share)
    packets.offer(0.0, 0, 1, [MTU] * 40)
    sizes = [len(arrival.pieces) for arrival in finish(packets)]
    assert together <= sizes[0] <= together + 1


def test_what_is_asked_late_is_handed_over_as_if_asked_in_time() -> None:
    """A piece is known when it reaches its last link, which is after the one before was handed over."""
    network = line("latency: 1ms, rate: 12Mbps", "latency: 0.1ms, rate: unlimited")
    patient, prompt = (Packets(network, seed=1, window_s=0.0015) for _ in range(2))
    for packets in (patient, prompt):
        packets.offer(0.0, 0, 1, [MTU] * 4)
    found = patient.advance(1.0)
    assert [arrival.pieces for arrival in found] == [(0,), (1,), (2,), (3,)]
    assert found == finish(prompt)


def test_a_way_that_becomes_shorter_is_looked_at_anew() -> None:
    before, after = pair(latency="100ms", rate="120Mbps"), pair(latency="1ms", rate="120Mbps")
    packets = Packets(before, seed=1, window_share=0.01)
    packets.offer(0.0, 0, 1, [MTU] * 40)
    finish(packets)
    packets.change(1.0, after)
    packets.offer(1.0, 0, 1, [MTU] * 40)
    assert len(finish(packets)[0].pieces) <= 3


def test_pieces_of_a_segment_overlap_on_successive_links() -> None:
    packets = Packets(line("latency: 1ms, rate: 12Mbps", "latency: 1ms, rate: 12Mbps"), seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    assert times(finish(packets)) == pytest.approx([0.004 + 0.001 * place for place in range(10)], abs=1e-12)


def test_pieces_that_arrive_close_together_are_reported_with_the_last_of_them() -> None:
    packets = Packets(pair(rate="120Mbps"), seed=1, window_s=0.00025)
    packets.offer(0.0, 0, 1, [MTU] * 5)
    found = finish(packets)
    assert [arrival.pieces for arrival in found] == [(0, 1, 2), (3, 4)]
    assert [arrival.due_s for arrival in found] == pytest.approx([0.0203, 0.0205], abs=1e-12)


def test_never_faster_than_the_link_and_never_idle_with_a_queue() -> None:
    packets = Packets(pair(", queue: 10s"), seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 20)
    for number in range(40):
        packets.offer(number * 0.0017, 0, 1, [100 + 350 * (number % 5)] * (1 + number % 9))
    due = times(finish(packets))
    sizes = [MTU] * 20 + [100 + 350 * (number % 5) for number in range(40) for _ in range(1 + number % 9)]
    byte_s = 8 / 12e6
    for first in range(0, len(due), 7):
        for last in range(first, len(due)):
            assert sum(sizes[first + 1 : last + 1]) * byte_s <= due[last] - due[first] + 1e-9
    assert due[-1] == pytest.approx(0.02 + sum(sizes) * byte_s, rel=0.02)


@pytest.mark.parametrize(
    ("queue", "limit_s"), [("queue: 50ms", 0.05), ("queue: 30kB", 0.02), ("queue: 2kB", 0.004 / 3)]
)
def test_what_waits_at_a_link_is_limited(queue: str, limit_s: float) -> None:
    packets = Packets(pair(f", {queue}"), seed=1)
    packets.offer(0.0, 0, 1, [MTU] * 200)
    passed = 1 + math.floor(limit_s / 0.001 + 1e-6)
    assert times(finish(packets)) == pytest.approx([0.021 + 0.001 * place for place in range(passed)], abs=1e-9)
    links = packets.snapshot().links
    assert (links.packets.tolist(), links.dropped_queue.tolist()) == ([passed], [200 - passed])
    assert links.queue_max_s[0] == pytest.approx(0.001 * (passed - 1), abs=1e-9)
    assert links.queue_s[0] == pytest.approx(0.001 * sum(range(passed)), abs=1e-9)
    assert packets.snapshot().links.queue_max_s.tolist() == [0.0]


@pytest.mark.parametrize(("queue", "limit_s"), [("queue: 50ms", 0.05), ("queue: 30kB", 0.02)])
def test_at_twice_the_rate_the_wait_stays_at_the_limit(queue: str, limit_s: float) -> None:
    packets = Packets(pair(f", {queue}"), seed=1)
    offered = flood(packets, 2000.0, 1.0)
    late = [each.due_s - offered[each.segment] - 0.021 for each in finish(packets) if offered[each.segment] > 0.2]
    assert max(late) == pytest.approx(limit_s, abs=1e-6)
    assert min(late) >= limit_s - 0.0011
    assert packets.snapshot().links.dropped_queue[0] == pytest.approx(1000 - limit_s * 1000, abs=2)


def test_a_clock_that_has_long_been_running_is_as_exact() -> None:
    packets = Packets(pair(", queue: 50ms"), seed=1, window_s=0.0)
    packets.offer(3e6, 0, 1, [MTU] * 100)
    packets.offer(3e6 + 0.0105, 0, 1, [MTU] * 100)
    late = [at_s - 3e6 for at_s in times(finish(packets))]
    assert late == pytest.approx([0.021 + 0.001 * place for place in range(51 + 10)], abs=5e-9)


def test_background_traffic_takes_its_share_of_the_rate() -> None:
    packets = Packets(pair(", queue: 50ms, background: 9Mbps"), seed=1)
    flood(packets, 2000.0, 2.0)
    found = times(finish(packets))
    steady = [at_s for at_s in found if 0.5 <= at_s < 1.5]
    assert len(steady) == pytest.approx(250, abs=1), "3 of 12 Mbit/s"
    assert packets.snapshot().links.queue_max_s[0] == pytest.approx(0.05, abs=0.001)


def test_an_idle_link_with_background_traffic_does_not_delay() -> None:
    packets = Packets(pair(", background: 11Mbps"), seed=1)
    packets.offer(0.0, 0, 1, [MTU])
    assert times(finish(packets)) == pytest.approx([0.021], abs=1e-12)


def test_loss_by_counting() -> None:
    packets = Packets(pair(", loss: 2%, queue: 100s", rate="1Gbps"), seed=3)
    count = 50_000
    for number in range(count // 50):
        packets.offer(number * 0.001, 0, 1, [100] * 50)
    arrived = len(times(finish(packets)))
    lost = int(packets.snapshot().links.dropped_loss[0])
    assert arrived + lost == count
    assert abs(lost - 1000) < 4 * math.sqrt(1000 * 0.98)


def test_losses_come_alone() -> None:
    """Drawn for every piece: the chance that one follows another is the loss rate."""
    packets = Packets(pair(", loss: 10%, queue: 100s", rate="1Gbps"), seed=3, window_s=0.0)
    packets.offer(0.0, 0, 1, [100] * 20_000)
    there = {piece for arrival in finish(packets) for piece in arrival.pieces}
    lost = [piece not in there for piece in range(20_000)]
    following = sum(one and other for one, other in pairwise(lost))
    assert abs(following - 200) < 5 * math.sqrt(200)


def test_losses_do_not_depend_on_how_packets_are_grouped() -> None:
    def arrived(groups: list[int]) -> list[float]:
        packets = Packets(
            line("latency: 1ms, rate: 1Gbps, loss: 20%", "latency: 2ms, rate: unlimited, jitter: 1ms, loss: 10%"),
            seed=5,
            window_s=0.0,
        )
        for group in groups:
            packets.offer(0.0, 0, 1, [100] * group)
        return times(finish(packets))

    assert arrived([64]) == arrived([1] * 64) == arrived([20, 30, 14])
    assert 35 < len(arrived([64])) < 60


def test_jitter_has_its_mean_and_standard_deviation() -> None:
    packets = Packets(pair(", jitter: 4ms"), seed=2)
    offered = {}
    for number in range(4000):
        at_s = number * 0.04
        offered[packets.offer(at_s, 0, 1, [MTU])] = at_s
    found = finish(packets)
    late = [arrival.due_s - offered[arrival.segment] for arrival in found]
    assert stdev(late) == pytest.approx(0.004, rel=0.05)
    assert fmean(late) == pytest.approx(0.021, abs=0.0003)
    assert min(late) > 0.001


@pytest.mark.parametrize("in_order", [True, False])
def test_jitter_keeps_a_flow_in_order_unless_asked_otherwise(in_order: bool) -> None:
    packets = Packets(pair(", jitter: 5ms", rate="unlimited"), seed=2, in_order=in_order)
    for number in range(500):
        packets.offer(number * 0.001, 0, 1, [100, 100])
    order = [(arrival.segment, piece) for arrival in finish(packets) for piece in arrival.pieces]
    assert len(order) == 1000
    assert (order == sorted(order)) is in_order


def test_travel_never_takes_less_than_no_time() -> None:
    packets = Packets(pair(", jitter: 30ms", latency="1ms", rate="unlimited"), seed=2, in_order=False, window_s=0.0)
    packets.offer(1.0, 0, 1, [100] * 500)
    assert min(times(finish(packets))) == 1.0


SHARED = network_from(
    """
services: {a: {replicas: 2}, b: {}}
links:
  - {from: a, to: b, latency: 10ms, rate: 12Mbps, shared: true}
"""
)


def test_nodes_share_the_link_behind_their_meeting_point() -> None:
    packets = Packets(SHARED, seed=1, window_s=0.0)
    for rank in (1, 0):
        packets.offer(0.0, rank, 2, [MTU] * 10)
    found = finish(packets)
    assert times(found) == pytest.approx([0.012 + 0.001 * place for place in range(20)], abs=1e-9)
    assert [arrival.origin for arrival in found] == [0, 1] * 10
    counts = packets.snapshot().links
    assert sorted(counts.packets.tolist()) == [10, 10, 20]


def test_a_shared_bottleneck_is_shared_evenly() -> None:
    text = "services: {a: {replicas: 4}, b: {replicas: 4}}\nbridges: [x, y]\nlinks:\n"
    text += "  - {from: a, to: x, latency: 1ms, rate: 1Gbps}\n  - {from: y, to: b, latency: 1ms, rate: 1Gbps}\n"
    text += "  - {from: x, to: y, latency: 10ms, rate: 12Mbps, queue: 20ms}\n"
    packets = Packets(network_from(text), seed=1)
    draw = stream(1, "offers")
    for number in range(4000):
        for place, rank in enumerate(draw.sample(range(4), 4)):
            packets.offer(number * 0.0005 + (place + draw.random()) * 0.0001, rank, 4 + rank, [MTU])
        packets.advance(number * 0.0005 + 0.0004)
    finish(packets)
    pairs = packets.snapshot().pairs
    assert pairs.arrived_packets.sum() == pytest.approx(2020, abs=2), "2 s, and a queue of 20 ms"
    assert (pairs.arrived_packets > 0.15 * 2020).all()
    assert (pairs.arrived_packets < 0.35 * 2020).all()
    assert (pairs.arrived_packets + pairs.dropped_packets == 4000).all()


def test_a_smaller_rate_holds_for_the_packets_in_the_queue() -> None:
    network = pair()
    packets = Packets(network, seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    packets.change(0.0045, replace(network, rate_bps=network.rate_bps / 10))
    expected = [0.021 + 0.001 * place for place in range(4)]
    expected += [0.0245 + 0.01 * (place + 0.5) for place in range(6)]
    assert times(finish(packets)) == pytest.approx(expected, abs=1e-9)


def test_pieces_on_two_links_when_the_second_changes() -> None:
    network = line("latency: 20ms, rate: 12Mbps", "latency: 20ms, rate: 12Mbps")
    packets = Packets(network, seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    packets.change(0.0245, replace(network, rate_bps=np.where(network.dest == 1, 6e6, network.rate_bps)))
    expected = [0.042, 0.043, 0.044, 0.0455] + [0.0475 + 0.002 * place for place in range(6)]
    assert times(finish(packets)) == pytest.approx(expected, abs=1e-9)


def everywhere(network: Network, value: float) -> NDArray[np.float64]:
    return np.full(network.link_count, value)


CHANGES: dict[str, Callable[[Network], Network]] = {
    "rate": lambda network: replace(network, rate_bps=everywhere(network, 6e6)),
    "latency": lambda network: replace(network, latency_ms=everywhere(network, 30.0)),
    "jitter": lambda network: replace(network, jitter_ms=everywhere(network, 5.0)),
    "loss": lambda network: replace(network, loss=everywhere(network, 0.3)),
    "queue": lambda network: replace(network, queue_ms=everywhere(network, 5.0)),
    "queue bytes": lambda network: replace(network, queue_bytes=everywhere(network, 4000.0)),
    "background": lambda network: replace(network, background_bps=everywhere(network, 6e6)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_after_a_change_the_network_is_as_if_it_had_always_been_so(name: str) -> None:
    before = pair()
    after = CHANGES[name](before)

    def arrived(packets: Packets) -> list[float]:
        packets.offer(1.0, 0, 1, [MTU] * 10)
        packets.offer(1.003, 0, 1, [MTU] * 40)
        return times(finish(packets))

    changed = Packets(before, seed=1, window_s=0.0)
    changed.offer(0.0, 0, 1, [MTU])
    changed.advance(0.5)
    changed.change(0.5, after)
    expected = arrived(Packets(after, seed=1, window_s=0.0))
    assert arrived(changed) == expected
    assert arrived(Packets(before, seed=1, window_s=0.0)) != expected


def test_a_greater_loss_drops_from_the_queue_as_many_as_it_would_have_dropped() -> None:
    network = pair(", queue: 100s, loss: 50%", rate="1Mbps")
    packets = Packets(network, seed=1)
    packets.offer(0.0, 0, 1, [100] * 4000)
    packets.change(0.0, replace(network, loss=np.full(network.link_count, 0.75)))
    assert abs(len(times(finish(packets))) - 1000) < 4 * math.sqrt(750)


def test_a_change_elsewhere_leaves_a_flow_in_order() -> None:
    text = "services: {a: {}, b: {}, c: {}}\nbridges: [x]\nlinks:\n"
    text += "".join(f"  - {{from: {one}, to: x, latency: 20ms, rate: 1Gbps, jitter: 5ms}}\n" for one in "abc")
    network = network_from(text)
    other_down = replace(network, up=(network.origin != 2) & (network.dest != 2))
    packets = Packets(network, seed=1)
    for number in range(300):
        packets.offer(number * 0.001, 0, 1, [MTU])
        packets.change(number * 0.001, other_down if number % 2 else network)
    order = [arrival.segment for arrival in finish(packets)]
    assert len(order) == 300
    assert order == sorted(order)


def test_at_the_same_time_at_a_link_the_lower_rank_goes_first() -> None:
    """Whatever was known first: here its packet is still on the way when the other's are carried."""
    text = "services: {a: {}, b: {}, c: {}}\nbridges: [x]\nlinks:\n"
    text += "  - {from: a, to: x, latency: 31.25ms, rate: unlimited}\n"
    text += "  - {from: b, to: x, latency: 31.25ms, rate: 8388608bps}\n"
    text += "  - {from: x, to: c, latency: 50ms, rate: 4194304bps, queue: 1s}\n"
    packets = Packets(network_from(text), seed=1, window_s=0.0)
    packets.offer(0.0, 1, 2, [1024] * 50)
    packets.offer(40 / 1024, 0, 2, [1024])
    origins = [arrival.origin for arrival in packets.advance(10.0)]
    assert origins.index(0) == 39, "with the fortieth of the others"


def test_latency_and_loss_change_for_what_has_not_left_the_queue() -> None:
    network = pair()
    packets = Packets(network, seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    slower = replace(network, latency_ms=network.latency_ms + 100)
    packets.change(0.0045, slower)
    packets.change(0.0065, replace(slower, loss=np.ones(network.link_count)))
    expected = [0.021, 0.022, 0.023, 0.024, 0.125, 0.126]
    assert times(finish(packets)) == pytest.approx(expected, abs=1e-9)
    assert packets.snapshot().links.dropped_loss.tolist() == [4]
    packets.offer(1.0, 0, 1, [MTU])
    packets.change(1.1, network)
    packets.offer(1.1, 0, 1, [MTU])
    assert times(finish(packets)) == pytest.approx([1.121], abs=1e-9), "set back as it was"


def test_a_smaller_latency_shows_at_once_and_jitter_still_keeps_order_after_a_new_rate() -> None:
    network = pair(", jitter: 2ms, queue: 10s", latency="200ms")
    packets = Packets(network, seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU])
    packets.change(0.01, replace(network, latency_ms=network.latency_ms / 10))
    packets.offer(0.01, 0, 1, [MTU])
    assert [arrival.segment for arrival in finish(packets)] == [1, 0]
    now_s = 1.0
    for number in range(200):
        packets.offer(now_s, 0, 1, [MTU])
        now_s += 0.0005
        if number % 10 == 0:
            packets.change(now_s, replace(network, rate_bps=network.rate_bps * (1 + number % 3)))
    order = [arrival.segment for arrival in finish(packets)]
    assert len(order) == 200
    assert order == sorted(order)


def test_a_link_that_goes_down_drops_its_queue_and_not_what_is_past_it() -> None:
    network = line("latency: 20ms, rate: 12Mbps", "latency: 20ms, rate: 12Mbps")
    packets = Packets(network, seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    down = replace(network, up=~((network.origin == 0) | (network.dest == 0)))
    packets.change(0.0045, down)
    assert packets.offer(0.005, 0, 1, [MTU]) is None
    assert packets.snapshot().in_flight == 4
    assert len(times(packets.advance(0.5))) == 4
    links = packets.snapshot().links
    assert links.dropped_down.tolist() == [6, 0]
    packets.change(0.5, network)
    packets.offer(0.5, 0, 1, [MTU] * 10)
    packets.change(0.5015, down)
    packets.change(0.502, network)
    packets.offer(0.502, 0, 1, [MTU])
    assert times(finish(packets)) == pytest.approx([0.542, 0.544], abs=1e-9), "its queue is empty when it comes up"
    assert packets.snapshot().no_path == 1


def test_what_reaches_a_link_that_went_down_meanwhile_is_dropped_there() -> None:
    network = line("latency: 20ms, rate: 12Mbps", "latency: 20ms, rate: 12Mbps")
    packets = Packets(network, seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    packets.advance(0.015)
    packets.change(0.015, replace(network, up=~((network.origin == 1) | (network.dest == 1))))
    assert not packets.advance(1.0)
    snapshot = packets.snapshot()
    assert snapshot.links.dropped_down.tolist() == [0, 10]
    assert snapshot.pairs.dropped_packets.tolist() == [10]
    assert snapshot.in_flight == 0


def test_another_way_is_taken_while_the_usual_one_is_down() -> None:
    text = "services: {a: {}, b: {}}\nbridges: [x, y]\nlinks:\n"
    text += "".join(
        f"  - {{from: {one}, to: {other}, latency: 1ms, rate: unlimited}}\n" for one, other in ("ab", "ax", "xy", "yb")
    )
    network = network_from(text)
    packets = Packets(network, seed=1)
    packets.offer(0.0, 0, 1, [MTU])
    direct = (network.origin + network.dest) == 1
    packets.change(0.0, replace(network, up=~direct))
    packets.offer(0.0, 0, 1, [MTU])
    packets.change(0.1, network)
    packets.offer(0.1, 0, 1, [MTU])
    assert times(finish(packets)) == pytest.approx([0.001, 0.003, 0.101], abs=1e-9)


def test_nodes_of_two_groups_have_no_path_until_the_partition_ends() -> None:
    packets = Packets(SHARED, seed=1)
    divided = replace(SHARED, partitions=(np.array([0, -1, 1], dtype=np.int32),))
    packets.offer(0.0, 0, 2, [MTU])
    packets.change(0.005, divided)
    assert packets.offer(0.005, 0, 2, [MTU]) is None
    assert packets.offer(0.005, 1, 2, [MTU]) is not None
    packets.change(1.0, SHARED)
    assert packets.offer(1.0, 0, 2, [MTU]) is not None
    assert len(finish(packets)) == 3


def test_a_node_that_is_cut_off_neither_sends_nor_receives() -> None:
    packets = Packets(pair(), seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU] * 10)
    packets.offer(0.0, 1, 0, [MTU] * 3)
    packets.cut(0.0045, 0)
    assert packets.offer(0.005, 0, 1, [MTU, MTU]) is None
    assert packets.offer(0.005, 1, 0, [MTU]) is None
    assert [arrival.dest for arrival in packets.advance(1.0)] == [1] * 4, "what had left it travels on"
    snapshot = packets.snapshot()
    assert sorted(snapshot.links.dropped_down.tolist()) == [3, 6]
    assert (snapshot.no_path, snapshot.in_flight) == (3, 0)
    packets.uncut(1.0, 0)
    packets.offer(1.0, 0, 1, [MTU])
    packets.offer(1.0, 1, 0, [MTU])
    assert times(finish(packets)) == pytest.approx([1.021, 1.021], abs=1e-9)


@pytest.mark.parametrize(("is_offered", "is_in_order"), [(False, True), (True, False)])
def test_jitter_keeps_order_through_a_cut_unless_something_was_offered(is_offered: bool, is_in_order: bool) -> None:
    """The pair has no route only if it looks for one meanwhile."""
    packets = Packets(pair(", jitter: 8ms", latency="30ms", rate="unlimited"), seed=1, window_s=0.0)
    packets.offer(0.0, 0, 1, [MTU])
    packets.cut(0.001, 1)
    if is_offered:
        assert packets.offer(0.0015, 0, 1, [MTU]) is None
    packets.uncut(0.002, 1)
    packets.offer(0.003, 0, 1, [MTU])
    first, second = finish(packets)
    assert (first.segment < second.segment) == is_in_order


def test_a_transit_node_that_is_cut_off_is_gone_round() -> None:
    text = "services: {a: {}, b: {}, c: {}}\nbridges: [x, y]\nlinks:\n"
    text += "".join(
        f"  - {{from: {one}, to: {other}, latency: 1ms, rate: unlimited}}\n"
        for one, other in ("ac", "cb", "ax", "xy", "yb")
    )
    packets = Packets(network_from(text), seed=1)
    packets.offer(0.0, 0, 1, [MTU])
    packets.cut(0.5, 2)
    packets.offer(0.5, 0, 1, [MTU])
    packets.uncut(1.0, 2)
    packets.offer(1.0, 0, 1, [MTU])
    assert times(finish(packets)) == pytest.approx([0.002, 0.503, 1.002], abs=1e-9)


LOSSY = network_from(
    """
services: {a: {replicas: 3}, b: {replicas: 2}}
bridges: [x]
links:
  - {from: a, to: x, latency: 1ms, rate: 12Mbps, jitter: 300us, loss: 5%, queue: 20ms}
  - {from: x, to: b, latency: 7ms, rate: 12Mbps, jitter: 2ms, loss: 5%, queue: 3ms}
"""
)


def story(network: Network, seed: int = 1, scale: float = 1.0, steps: int = 0) -> list[tuple[int, int, float]]:
    """Every piece's arrival, times divided by the scale again; with so many more advances between offers."""
    packets = Packets(network, seed=seed, time_scale=scale, window_s=0.0)
    found: list[Arrival] = []
    for number in range(200):
        at_s = number * 0.0011 * scale
        for step in range(steps):
            found += packets.advance(at_s - 0.001 * scale * (1 - step / steps) if number else 0.0)
        packets.offer(at_s, number % 3, 3 + number % 2, [900] * (1 + number % 4))
    found += finish(packets)
    return [(each.segment, piece, each.due_s / scale) for each in found for piece in each.pieces]


def test_the_same_seed_gives_the_same_and_another_seed_another() -> None:
    assert story(LOSSY) == story(LOSSY)
    assert story(LOSSY) != story(LOSSY, seed=2)


def test_when_it_is_told_to_advance_makes_no_difference() -> None:
    assert story(LOSSY, steps=5) == story(LOSSY)


@pytest.mark.parametrize("scale", [4.0, 2.5])
def test_time_scale_stretches_everything(scale: float) -> None:
    plain, stretched = story(LOSSY), story(LOSSY, scale=scale)
    assert [each[:2] for each in stretched] == [each[:2] for each in plain]
    assert [each[2] for each in stretched] == pytest.approx([each[2] for each in plain], abs=1e-9)


def test_a_link_elsewhere_changes_no_draw() -> None:
    more = network_from(
        """
services: {a: {replicas: 3}, b: {replicas: 2}, c: {}}
bridges: [w, x]
links:
  - {from: c, to: w, latency: 1ms, loss: 50%, rate: unlimited}
  - {from: w, to: x, latency: 1ms, loss: 50%, rate: unlimited}
  - {from: a, to: x, latency: 1ms, rate: 12Mbps, jitter: 300us, loss: 5%, queue: 20ms}
  - {from: x, to: b, latency: 7ms, rate: 12Mbps, jitter: 2ms, loss: 5%, queue: 3ms}
"""
    )
    assert story(more) == story(LOSSY)


def test_two_links_and_two_directions_draw_for_themselves() -> None:
    packets = Packets(pair(", loss: 50%", rate="unlimited"), seed=1)
    for origin in (0, 1):
        packets.offer(0.0, origin, 1 - origin, [100] * 64)
    one, other = finish(packets)
    assert one.pieces != other.pieces


def test_two_models_that_share_a_way_are_as_one() -> None:
    """As two hosts that own a link each: a piece is handed over with the time when it reaches the other one's link."""
    shaky = "rate: 12Mbps, jitter: 1ms, loss: 10%, queue: 1s"
    whole = line(f"latency: 5ms, {shaky}", f"latency: 20ms, {shaky}")
    near = line(f"latency: 5ms, {shaky}", "latency: 0ms, rate: unlimited")
    (link,) = np.flatnonzero(whole.dest == 1).tolist()
    one, here, there = (Packets(network, seed=1, window_s=0.0) for network in (whole, near, whole))
    for number in range(50):
        for packets in (one, here):
            packets.offer(number * 0.003, 0, 1, [MTU] * 4)
    expected = [(each.segment, piece, each.due_s) for each in finish(one) for piece in each.pieces]
    taken: dict[int | None, tuple[int, int]] = {}
    found: list[Arrival] = []
    for each in finish(here):
        found += there.advance(each.due_s)
        for piece in each.pieces:
            taken[there.take(link, 0, 1, [MTU] * 4, [piece], [each.due_s])] = each.segment, piece
    found += finish(there)
    assert [(*taken[each.segment], each.due_s) for each in found] == expected
    assert 140 < len(found) < 185
    snapshot = there.snapshot()
    assert snapshot.in_flight == 0
    assert snapshot.pairs.offered_packets.tolist() == [0], "they were offered elsewhere"


def test_what_is_taken_reaches_its_link_at_its_time() -> None:
    network = line("latency: 5ms, rate: 12Mbps", "latency: 20ms, rate: 12Mbps")
    (link,) = np.flatnonzero(network.dest == 1).tolist()
    packets = Packets(network, seed=1, window_s=0.0)
    packets.advance(1.0)
    assert packets.take(link, 0, 1, [MTU] * 9, [7, 2, 4], [1.003, 1.01, 1.0]) == 0
    assert packets.snapshot().in_flight == 3
    found = finish(packets)
    assert [each.pieces for each in found] == [(4,), (7,), (2,)]
    assert times(found) == pytest.approx([1.021, 1.024, 1.031], abs=1e-9)
    assert packets.snapshot().pairs.arrived_packets.tolist() == [3]


def test_what_is_taken_for_a_link_that_is_no_longer_on_its_way_is_counted() -> None:
    packets = Packets(pair(), seed=1)
    (back,) = np.flatnonzero(pair().origin == 1).tolist()
    assert packets.take(back, 0, 1, [MTU] * 2, [0, 1], [0.0, 0.0]) is None
    packets.cut(0.0, 1)
    assert packets.take(1 - back, 0, 1, [MTU], [0], [0.0]) is None
    snapshot = packets.snapshot()
    assert (snapshot.no_path, snapshot.in_flight) == (3, 0)
    packets.uncut(1.0, 1)
    with pytest.raises(ValueError, match="backwards"):
        packets.take(1 - back, 0, 1, [MTU], [0], [0.5])


def test_what_is_asked_wrongly_is_said() -> None:
    packets = Packets(pair(), seed=1)
    packets.advance(1.0)
    with pytest.raises(ValueError, match="backwards"):
        packets.offer(0.5, 0, 1, [MTU])
    with pytest.raises(ValueError, match="backwards"):
        packets.advance(0.5)
    with pytest.raises(ValueError, match="no ranks"):
        packets.offer(1.0, 0, 7, [MTU])
    with pytest.raises(ValueError, match="another network"):
        packets.change(1.0, LOSSY)
    assert packets.offer(1.0, 0, 0, [MTU]) is None
    assert packets.snapshot().no_path == 1


def test_counts_add_up_while_packets_are_under_way() -> None:
    packets = Packets(LOSSY, seed=4)
    arrived = 0
    for number in range(600):
        packets.offer(number * 0.0003, number % 3, 3 + number % 2, [900] * (1 + number % 4))
        arrived += len(times(packets.advance(number * 0.0003)))
        if number % 50 == 0:
            now = packets.snapshot()
            drops = now.links.dropped_queue.sum() + now.links.dropped_loss.sum() + now.links.dropped_down.sum()
            offered = sum(1 + each % 4 for each in range(number + 1))
            assert now.pairs.offered_packets.sum() == offered
            assert offered == arrived + drops + now.in_flight + now.no_path
            assert now.pairs.dropped_packets.sum() == drops
    assert now.links.dropped_queue.sum() > 50
    assert now.links.dropped_loss.sum() > 50
    assert (now.pairs.offered_bytes == 900 * now.pairs.offered_packets).all()
    assert (now.links.bytes == 900 * now.links.packets).all()
