"""What stands before links in the fluid model: acknowledgements and segments that wait, and what queues drop."""

from __future__ import annotations

import random

import numpy as np
import pytest

from testbed.network.flows import Delivered, Flows, Tcp
from testbed.network.graph import Network
from tests.network.test_flows import arrival_s, network_from, run_until

SEGMENT = 1448
SEGMENT_S = 1500 * 8 / 20e6
"""At 20 Mbit/s: 0.6 ms."""
RTT_S = 0.2
FITS = Tcp(handshake=False, initial_window=1000)
"""All that is sent leaves at once."""


def line(queue: str = "250ms", back: str = "20Mbps") -> Network:
    return network_from(
        "services: {a: {replicas: 1}, b: {replicas: 1}}\n"
        f"links:\n  - {{from: a, to: b, latency: 100ms, up: 20Mbps, down: {back}, queue: {queue}}}\n"
    )


def star(nodes: int) -> Network:
    return network_from(
        f"services: {{n: {{replicas: {nodes}}}}}\nbridges: [hub]\n"
        "links:\n  - {from: n, to: hub, latency: 50ms, rate: 20Mbps}\n"
    )


def window_of(flows: Flows, origin: int, dest: int) -> float:
    """In segments."""
    return float(flows._state.window[flows._pairs[origin, dest].slot]) / SEGMENT


def both_ways_s(segments: int, other: int, later_s: float = 0.0) -> float:
    """When a message of so many segments has arrived whose window is 200, while so many come the other way."""
    flows = Flows(line("10s"), seed=1, tcp=Tcp(handshake=False, initial_window=200))
    sent = flows.send(0, 1, segments * SEGMENT)
    if later_s:
        run_until(flows, later_s)
    flows.send(1, 0, other * SEGMENT)
    return arrival_s(flows, sent)


def test_what_does_not_fit_into_the_window_waits_for_what_fills_the_way_back() -> None:
    """The other side's 200 segments leave within 120 ms, the first acknowledgement comes to them after 100 ms."""
    rest_s = 30 * SEGMENT_S
    alone_s = both_ways_s(230, 1)
    assert alone_s == pytest.approx(RTT_S + rest_s + 0.1, abs=0.003)
    assert both_ways_s(230, 200) == pytest.approx(0.12 + 0.1 + rest_s + 0.1, abs=0.008)
    assert both_ways_s(230, 100) == pytest.approx(alone_s, abs=0.003)


def test_it_waits_for_what_was_sent_meanwhile_too() -> None:
    """The other side begins 90 ms later: 183 of its segments stand before the acknowledgement, 110 ms of them."""
    found = both_ways_s(230, 200, later_s=0.09)
    assert found == pytest.approx(0.1 + 0.11 + 0.1 + 30 * SEGMENT_S + 0.1, abs=0.008)


def test_what_fits_into_the_window_waits_for_nothing() -> None:
    assert both_ways_s(200, 200) == pytest.approx(200 * SEGMENT_S * (1 + 52 / 3000) + 0.1, abs=0.002)


def test_acknowledgements_take_their_part_of_a_link_that_is_full_both_ways() -> None:
    """52 bytes for every 3000."""
    alone_s, both_s = both_ways_s(200, 1) - 0.1, both_ways_s(200, 200) - 0.1
    assert both_s / alone_s == pytest.approx(1 + 52 / 3000, abs=0.003)


def bursts(segments: int, queue: str = "250ms") -> tuple[float, Flows]:
    flows = Flows(line(queue), seed=1, tcp=FITS)
    return arrival_s(flows, flows.send(0, 1, segments * SEGMENT)), flows


@pytest.mark.parametrize(("queue", "holds"), [("250ms", 416), ("125ms", 208), ("300kB", 207)])
def test_a_queue_drops_what_it_does_not_hold(queue: str, holds: int) -> None:
    """What fits arrives at the link's rate; one segment too many is missed only when a probe has asked for it."""
    fits_s, flows = bursts(holds - 1, queue)
    assert fits_s == pytest.approx((holds - 1) * SEGMENT_S + 0.1, abs=0.002)
    assert window_of(flows, 0, 1) >= 1000
    over_s, flows = bursts(holds + 10, queue)
    assert over_s > fits_s + 2 * RTT_S
    assert over_s < fits_s + 6 * RTT_S
    # Acknowledgements of what arrived had made it grow, in slow start.
    assert 0.7 * 1000 <= window_of(flows, 0, 1) <= 0.7 * (1000 + 416)


def test_what_follows_the_drop_tells_of_it_sooner_than_a_probe() -> None:
    """The window holds 450 of 500 segments: the 50 others leave after a round trip, what was dropped after two."""
    flows = Flows(line(), seed=1, tcp=Tcp(handshake=False, initial_window=450))
    followed_s = arrival_s(flows, flows.send(0, 1, 500 * SEGMENT))
    assert 2 * RTT_S + 0.1 < followed_s < 3 * RTT_S + 0.1
    flows = Flows(line(), seed=1, tcp=Tcp(handshake=False, initial_window=450))
    assert arrival_s(flows, flows.send(0, 1, 450 * SEGMENT)) > followed_s + RTT_S


def test_without_drops_all_of_it_arrives_at_the_links_rate() -> None:
    flows = Flows(line(), seed=1, tcp=Tcp(handshake=False, initial_window=1000, drops=False))
    assert arrival_s(flows, flows.send(0, 1, 900 * SEGMENT)) == pytest.approx(900 * SEGMENT_S + 0.1, abs=0.002)


def test_of_messages_handed_over_together_the_last_loses() -> None:
    """300 segments each, 416 fit: the first has all of its window, the second loses 184."""
    flows = Flows(star(3), seed=1, tcp=FITS)
    flows.send(0, 1, 300 * SEGMENT)
    flows.send(0, 2, 300 * SEGMENT)
    arrived = {dest: at for at, what, _, dest, _ in run_until(flows, 30) if what == "Delivered"}
    assert arrived[1] < 600 * SEGMENT_S + 0.15
    assert arrived[2] > arrived[1] + 2 * RTT_S
    assert window_of(flows, 0, 1) >= 1000
    assert 700 <= window_of(flows, 0, 2) <= 0.7 * 1300


def test_a_link_that_others_feed_as_slowly_as_it_is_holds_no_queue() -> None:
    """Two senders of 400 segments each, which fit into their own queues, over equal links to one receiver."""
    flows = Flows(star(3), seed=1, tcp=FITS)
    for rank in (0, 1):
        flows.send(rank, 2, 400 * SEGMENT)
    arrived = [at for at, what, *_ in run_until(flows, 30) if what == "Delivered"]
    assert max(arrived) == pytest.approx(800 * SEGMENT_S + 0.1, abs=0.005)


def test_what_was_sent_before_a_pause_is_not_free_again_before_it_is_acknowledged() -> None:
    """Of a window of 100, 60 leave at 0 and 40 at 0.15 s; from 0.2 s on there is room for the 60, and 60 more.

    So the window has 160, and at 0.35 s, when all of them are acknowledged, it doubles."""
    flows = Flows(line(), seed=1, tcp=Tcp(handshake=False, initial_window=100, congestion="reno"))
    flows.send(0, 1, 60 * SEGMENT)
    run_until(flows, 0.15)
    assert arrival_s(flows, flows.send(0, 1, 100 * SEGMENT)) == pytest.approx(0.2 + 60 * SEGMENT_S + 0.1, abs=0.003)
    flows = Flows(line(), seed=1, tcp=Tcp(handshake=False, initial_window=100, congestion="reno"))
    flows.send(0, 1, 60 * SEGMENT)
    run_until(flows, 0.15)
    found_s = arrival_s(flows, flows.send(0, 1, 170 * SEGMENT))
    assert found_s == pytest.approx(0.15 + RTT_S + 10 * SEGMENT_S + 0.1, abs=0.003)


def test_messages_beyond_the_queue_arrive_whatever_its_size() -> None:
    for queue in ("1ms", "10ms", "1500B"):
        flows = Flows(line(queue), seed=1)
        sent = [flows.send(0, 1, 300_000), flows.send(1, 0, 300_000), flows.send(0, 1, 1)]
        arrived = []
        while flows.next_s() < 600:
            arrived += [news.transfer for news in flows.advance(flows.next_s()) if isinstance(news, Delivered)]
        assert set(arrived) == set(sent)
        assert not np.isnan(flows.now_s)


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_order_within_an_instant_decides_nothing(interrupted: bool) -> None:
    """All send to all at once, over queues that drop, and time is asked to go on between two sends, or is not."""

    def told(order: list[tuple[int, int]]) -> list[tuple[float, str, int, int]]:
        flows = Flows(star(4), seed=1, tcp=Tcp(handshake=False, initial_window=200))
        found = []
        for until_s in (0.0, 0.05, 1.5):
            found += [(at, what, origin, dest) for at, what, origin, dest, *_ in run_until(flows, until_s)]
            for origin, dest in order:
                flows.send(origin, dest, 230 * SEGMENT)
                if interrupted:
                    flows.advance(flows.now_s)
        found += [(at, what, origin, dest) for at, what, origin, dest, *_ in run_until(flows, 30)]
        return found

    pairs = [(origin, dest) for origin in range(4) for dest in range(4) if origin != dest]
    first = told(pairs)
    assert len(first) == 3 * 3 * len(pairs)
    for seed in range(3):
        random.Random(seed).shuffle(pairs)  # noqa: S311 - an order, not a secret
        assert told(pairs) == first
