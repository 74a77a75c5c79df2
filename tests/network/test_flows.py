"""The fluid model: sharing over time, giving up, a changing network, nodes that die, and that nothing else matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from testbed.network.flows import Acknowledged, BandwidthSharing, Delivered, Flows, Sent, Tcp, Transfer
from testbed.network.graph import Floats, Network, expand
from testbed.seeds import stream
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.load import load, load_bytes
from testbed.topologies.source import Form

PLAIN = Tcp(handshake=False, initial_window=10**6, idle_restart=False, header_bytes=0, two_ways=False, drops=False)
"""No slow start, no queues: what is left of TCP are its acknowledgements."""
PASSED_ON_S = 1448 / 1e6
"""What a segment takes on the second link of a star."""


def network_from(text: str) -> Network:
    return expand(load_bytes(text.encode(), Form.YAML, "t.yaml").require())


def pair(latency: str = "50ms", rate: str = "8Mbps", more: str = "") -> Network:
    return network_from(
        f"services: {{a: {{replicas: 1}}, b: {{replicas: 1}}}}\n"
        f"links:\n  - {{from: a, to: b, latency: {latency}, rate: {rate}{more}}}\n"
    )


def star(count: int, rate: str = "8Mbps", more: str = "") -> Network:
    return network_from(
        f"services: {{n: {{replicas: {count}}}}}\nbridges: [hub]\n"
        f"links:\n  - {{from: n, to: hub, latency: 25ms, rate: {rate}{more}}}\n"
    )


def bundled(name: str) -> Network:
    return expand(load(str(next(each.path for each in BUNDLED if each.name == name))).require())


def run_until(flows: Flows, to_s: float) -> list[tuple[float, str, int, int, int]]:
    """Everything that becomes true up to a time."""
    told = []
    while flows.next_s() <= to_s:
        for news in flows.advance(flows.next_s()):
            sent = news.transfer
            told.append((flows.now_s, type(news).__name__, sent.origin, sent.dest, sent.number))
    if to_s < float("inf"):
        flows.advance(to_s)
    return told


def arrival_s(flows: Flows, transfer: Transfer) -> float:
    while flows.next_s() < float("inf"):
        for news in flows.advance(flows.next_s()):
            if isinstance(news, Delivered) and news.transfer is transfer:
                return flows.now_s
    raise AssertionError("never delivered")


def test_a_lone_message_takes_its_size_over_the_rate_and_the_latency() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    flows.send(0, 1, 1_000_000)
    assert [(round(at, 5), what) for at, what, *_ in run_until(flows, 10)] == [
        (1.0, "Sent"),
        (1.05, "Delivered"),
        (1.1, "Acknowledged"),
    ]
    assert flows.next_s() == float("inf")


def test_headers_take_their_part_of_the_link() -> None:
    flows = Flows(pair(), seed=1, tcp=replace(PLAIN, mss_bytes=1000, header_bytes=250))
    assert arrival_s(flows, flows.send(0, 1, 1_000_000)) == pytest.approx(1.25 + 0.05, abs=1e-4)


def test_two_flows_share_a_link_and_the_one_left_takes_all() -> None:
    flows = Flows(star(3), seed=1, tcp=PLAIN)
    flows.send(0, 2, 500_000)
    flows.send(1, 2, 1_000_000)
    told = {(what, origin): at for at, what, origin, *_ in run_until(flows, 10)}
    assert told["Delivered", 0] == pytest.approx(1.05 + PASSED_ON_S, abs=1e-4)
    assert told["Delivered", 1] == pytest.approx(1.55 + PASSED_ON_S, abs=1e-4)


def test_messages_of_a_pair_queue_and_others_do_not_wait() -> None:
    flows = Flows(star(3), seed=1, tcp=PLAIN)
    flows.send(0, 1, 500_000)
    flows.send(0, 1, 100)
    flows.send(2, 1, 100)
    order = [(origin, number) for _, what, origin, _, number in run_until(flows, 10) if what == "Delivered"]
    assert order == [(2, 0), (0, 0), (0, 1)]


def test_a_small_request_on_an_idle_connection_costs_its_own_time_only() -> None:
    flows = Flows(pair(), seed=1)
    flows.send(0, 1, 100)
    run_until(flows, 1)
    assert arrival_s(flows, flows.send(0, 1, 1000)) == pytest.approx(1 + 0.05 + 1000 / 1e6, rel=1e-3)


@pytest.mark.parametrize("senders", [10, 100])
def test_small_messages_share_a_slow_link_like_others(senders: int) -> None:
    """A segment and its headers are 1500 bytes: so many of them, at 100 kbps, whether few or many connections send."""
    network = network_from(
        f"services: {{n: {{replicas: {senders}}}, slow: {{replicas: 1}}}}\nbridges: [hub]\nlinks:\n"
        "  - {from: n, to: hub, latency: 5ms, rate: 8Mbps}\n"
        "  - {from: slow, to: hub, latency: 5ms, rate: 100kbps}\n"
    )
    flows = Flows(network, seed=1)
    for rank in range(senders):
        flows.send(rank, senders, 1)
    run_until(flows, 20)
    for rank in range(senders):
        flows.send(rank, senders, 1448)
    arrivals = [at for at, what, *_ in run_until(flows, 60) if what == "Delivered"]
    assert max(arrivals) - 20 == pytest.approx(senders * 1500 * 8 / 1e5 + 0.01, rel=0.01)


@pytest.mark.parametrize("between_s", [0.0, 0.0001, 0.001])
def test_small_messages_of_a_pair_take_their_time_on_the_link(between_s: float) -> None:
    """A thousand segments at 10 Mbps, faster than it carries them, on a connection that is open."""
    flows = Flows(pair(latency="1ms", rate="10Mbps"), seed=1)
    flows.send(0, 1, 1)
    run_until(flows, 1)
    for number in range(1000):
        run_until(flows, 1 + number * between_s)
        last = flows.send(0, 1, 1448)
    assert arrival_s(flows, last) - 1 == pytest.approx(1.2 + 0.001, rel=0.01)


def test_what_makes_no_sense_is_refused() -> None:
    flows = Flows(pair(), seed=1)
    with pytest.raises(ValueError, match="cannot send"):
        flows.send(0, 0, 1)
    flows.send(0, 1, 1)
    with pytest.raises(ValueError, match="next thing happens"):
        flows.advance(5)
    with pytest.raises(ValueError, match="cubic or reno"):
        Tcp(congestion="bbr")


def exchange(sends: list[tuple[int, int, int]], seed: int = 1, name: str = "wan64") -> list[object]:
    """What happens when everybody sends at once, and again after two thirds of a second."""
    flows = Flows(bundled(name), seed=seed)
    for send in sends:
        flows.send(*send)
    told: list[object] = [run_until(flows, 0.66)]
    for send in sends[::-1]:
        flows.send(*send)
    return [*told, *run_until(flows, 30)]


def mesh(count: int, neighbours: int) -> list[tuple[int, int, int]]:
    draw = stream(5, "mesh")
    return [(rank, (rank + hop * hop) % count, draw.randrange(100, 600_000))
            for rank in range(count) for hop in range(1, neighbours + 1)]  # fmt: skip


def test_the_order_of_calls_at_an_instant_does_not_matter() -> None:
    sends = mesh(64, 4)
    told = exchange(sends)
    assert len(told) > 500
    for seed in range(2):
        shuffled = sends.copy()
        stream(seed, "order").shuffle(shuffled)
        assert exchange(shuffled) == told


def test_one_seed_one_story() -> None:
    sends = mesh(16, 3)
    assert exchange(sends, 3, "mobile32") == exchange(sends, 3, "mobile32")
    assert exchange(sends, 3, "mobile32") != exchange(sends, 4, "mobile32")


def test_looking_does_not_change_what_is_seen() -> None:
    def story(stops: int) -> list[tuple[float, str, int, int, int]]:
        flows, told = Flows(bundled("wan16"), seed=1), []
        transfers = [flows.send(*send) for send in mesh(16, 3)]
        for stop in range(1, stops + 1):
            told += run_until(flows, 20 * stop / stops)
            flows.next_s()
            [flows.sent_bytes(transfer) for transfer in transfers]
        return told

    assert story(1) == story(977)


def carried_bps(flows: Flows, network: Network) -> Floats:
    """The rate at which messages' bytes flow into every link at this moment."""
    state, sending = flows._state, flows._sending
    links = state.links[sending]
    rates = np.repeat(state.rate[sending], links.shape[1])
    carried = np.bincount(links.ravel(), weights=rates, minlength=network.link_count + 1)[:-1]
    return carried.astype(np.float64) * 8.0


def test_no_link_carries_more_than_its_rate_and_a_full_one_is_full() -> None:
    for sharing in BandwidthSharing:
        network = bundled("wan64")
        flows = Flows(network, seed=1, sharing=sharing)
        for send in mesh(64, 6):
            flows.send(*send)
        fullest = 0.0
        while flows.next_s() < 3:
            flows.advance(flows.next_s())
            load_of = carried_bps(flows, network) / network.rate_bps
            assert load_of.max() <= 1 + 1e-9
            fullest = max(fullest, float(load_of.max()))
        assert fullest > 0.9


def test_jitter_moves_messages_and_never_past_each_other() -> None:
    flows = Flows(pair(more=", jitter: 10ms"), seed=1, tcp=PLAIN)
    latencies = []
    for number in range(200):
        run_until(flows, number)
        latencies.append(arrival_s(flows, flows.send(0, 1, 1000)) - number)
    assert 0.007 < np.std(latencies) < 0.013
    assert 0.048 < np.mean(latencies) < 0.054
    for _ in range(100):
        flows.send(0, 1, 1000)
    numbers = [number for _, what, _, _, number in run_until(flows, 400) if what == "Delivered"]
    assert numbers == sorted(numbers)


# Giving up


def test_cancel_keeps_the_chunks_that_began() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    first, second, third = (flows.send(0, 1, size) for size in (1_000_000, 500_000, 100_000))
    run_until(flows, 0.3)
    assert flows.sent_bytes(first) == pytest.approx(300_000, abs=10)
    assert flows.sent_bytes(second) == 0
    assert flows.cancel(first, chunk_bytes=200_000) == 400_000
    assert flows.cancel(second) == 0
    assert flows.cancel(first) == 400_000
    told = run_until(flows, 5)
    assert [(number, what) for _, what, _, _, number in told] == [(2, "Sent"), (2, "Delivered"), (2, "Acknowledged")]
    assert [at for at, *_ in told[:2]] == pytest.approx([0.5, 0.55], abs=1e-4)
    assert flows.sent_bytes(first) == 400_000
    assert flows.sent_bytes(third) == 100_000


def test_a_cut_message_of_which_all_that_counts_has_left_is_not_begun_anew() -> None:
    """A window that ends where a chunk does: nothing of the message is left to be sent."""
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    first = flows.send(0, 1, 1_000_000)
    run_until(flows, 0.3)
    gone = flows.sent_bytes(first)
    assert flows.cancel(first, chunk_bytes=gone) == 2 * gone
    run_until(flows, 1.0)
    second = flows.send(0, 1, 100_000)
    told = run_until(flows, 5)
    assert [(number, what) for _, what, _, _, number in told] == [(1, "Sent"), (1, "Delivered"), (1, "Acknowledged")]
    assert told[0][0] == pytest.approx(1.1, abs=1e-3)
    assert flows.sent_bytes(second) == 100_000


def test_when_a_connection_last_sent_is_known_at_any_moment() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    first = flows.send(0, 1, 300_000)
    assert flows.last_sent_s(first) == 0.0
    for at_s in (0.1, 0.25, 0.299):
        run_until(flows, at_s)
        assert flows.last_sent_s(first) == pytest.approx(at_s, abs=1e-6)
    for at_s in (0.5, 7.0):
        run_until(flows, at_s)
        assert flows.last_sent_s(first) == pytest.approx(0.3, abs=1e-3)


def test_cancel_comes_too_late_for_what_has_left() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    transfer = flows.send(0, 1, 100_000)
    run_until(flows, 0.12)
    assert flows.cancel(transfer) == 100_000
    assert [what for _, what, *_ in run_until(flows, 1)] == ["Delivered", "Acknowledged"]


def test_cancel_before_anything_left_leaves_nothing() -> None:
    for at_s in (0.0, 0.05):
        flows = Flows(pair(), seed=1)
        transfer = flows.send(0, 1, 100_000)
        run_until(flows, at_s)
        assert flows.cancel(transfer) == 0
        assert run_until(flows, 9) == []
        assert [what for _, what, *_ in ([flows.send(0, 1, 10)], run_until(flows, 20))[1]] == [
            "Sent",
            "Delivered",
            "Acknowledged",
        ]


# A changing network


def with_rate(network: Network, rate_bps: float) -> Network:
    return replace(network, rate_bps=np.full(network.link_count, rate_bps))


def test_a_rate_that_changes_midway() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    transfer = flows.send(0, 1, 1_000_000)
    run_until(flows, 0.5)
    flows.change(with_rate(pair(), 4e6))
    assert arrival_s(flows, transfer) == pytest.approx(0.5 + 1.0 + 0.05, abs=1e-4)


def test_a_latency_that_changes_is_that_of_what_leaves_later() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    early, late = flows.send(0, 1, 100_000), flows.send(0, 1, 100_000)
    run_until(flows, 0.12)
    flows.change(pair(latency="10ms"))
    told = {number: at for at, what, _, _, number in run_until(flows, 2) if what == "Delivered"}
    assert told[early.number] == pytest.approx(0.15, abs=1e-4)
    assert told[late.number] == pytest.approx(0.21, abs=1e-4)


def test_a_cut_stalls_and_the_next_retransmission_resumes() -> None:
    """Cut at 0.4, back at 1: the timer of 0.3 s fires at 0.7 in vain, then, twice as long, at 1.3."""
    network = pair()
    flows = Flows(network, seed=1, tcp=PLAIN)
    first, second = flows.send(0, 1, 390_000), flows.send(0, 1, 10_000)
    third = flows.send(0, 1, 1448)
    run_until(flows, 0.395)
    flows.change(replace(network, up=np.zeros(network.link_count, dtype=np.bool_)))
    told = run_until(flows, 1.0)
    assert [(number, what) for _, what, _, _, number in told if what == "Delivered"] == [(first.number, "Delivered")]
    assert flows.next_s() == float("inf")
    flows.change(network)
    assert flows.next_s() == pytest.approx(0.395 + 0.3 + 0.6, abs=1e-6)
    # One segment, then two, then four: 5000 bytes and the last message's.
    told = run_until(flows, 9)
    arrivals = {number: at for at, what, _, _, number in told if what == "Delivered"}
    assert arrivals[second.number] == pytest.approx(1.295 + 0.2 + 0.05 + 656e-6, abs=1e-3)
    assert arrivals[third.number] == pytest.approx(arrivals[second.number] + 1448e-6, abs=1e-4)


def test_a_connection_cannot_open_without_a_path() -> None:
    network = pair()
    flows = Flows(replace(network, up=np.zeros(network.link_count, dtype=np.bool_)), seed=1)
    transfer = flows.send(0, 1, 1000)
    run_until(flows, 2.5)
    flows.change(network)
    # Tries at 1 s and 3 s; the handshake takes a round trip.
    assert arrival_s(flows, transfer) == pytest.approx(3 + 0.1 + 0.05 + 0.001, abs=1e-3)


@pytest.mark.parametrize("direction", [0, 1])
def test_where_all_is_lost_on_the_way_there_or_back_nothing_is_sent(direction: int) -> None:
    """TCP needs its acknowledgements: both stall, and both go on when that is over."""
    network = pair()
    loss = network.loss.copy()
    loss[network.origin == direction] = 1.0
    flows = Flows(replace(network, loss=loss), seed=1)
    transfer = flows.send(0, 1, 1000)
    assert run_until(flows, 100) == []
    assert flows.sent_bytes(transfer) == 0
    flows.change(network)
    # Handshakes are tried at 63 s and 127 s; one takes a round trip.
    assert arrival_s(flows, transfer) == pytest.approx(127 + 0.1 + 0.05 + 0.001, abs=1e-3)


def test_a_partition_cuts_only_across() -> None:
    network = star(4)
    flows = Flows(network, seed=1, tcp=PLAIN)
    flows.send(0, 1, 100_000)
    flows.send(2, 1, 100_000)
    flows.change(replace(network, partitions=(np.array([0, 0, 1, 1], dtype=np.int32),)))
    told = run_until(flows, 5)
    assert [(what, origin) for _, what, origin, *_ in told] == [("Sent", 0), ("Delivered", 0), ("Acknowledged", 0)]
    assert told[1][0] == pytest.approx(0.15 + PASSED_ON_S, abs=1e-3)


def test_an_idle_connection_does_not_notice_a_short_cut() -> None:
    network = pair()
    flows = Flows(network, seed=1)
    flows.send(0, 1, 1000)
    run_until(flows, 1)
    flows.change(replace(network, up=np.zeros(network.link_count, dtype=np.bool_)))
    run_until(flows, 2)
    flows.change(network)
    assert arrival_s(flows, flows.send(0, 1, 10_000)) == pytest.approx(2.05 + 0.01 * 1.036, abs=1e-3)


def test_another_network_is_refused() -> None:
    with pytest.raises(ValueError, match="more or fewer links"):
        Flows(pair(), seed=1).change(star(3))


def test_background_traffic_leaves_less_to_messages() -> None:
    network = pair()
    half = network.rate_bps / 2
    alone = arrival_s(flows := Flows(network, seed=1, tcp=PLAIN), flows.send(0, 1, 1_000_000))
    flows = Flows(replace(network, background_bps=half), seed=1, tcp=PLAIN)
    shared = arrival_s(flows, flows.send(0, 1, 1_000_000))
    assert shared - 0.05 == pytest.approx(2 * (alone - 0.05), rel=1e-3)


# Nodes that die


def test_a_dead_nodes_messages_vanish_and_others_gain() -> None:
    flows = Flows(star(3), seed=1, tcp=PLAIN)
    flows.send(0, 2, 1_000_000)
    flows.send(1, 2, 500_000)
    flows.send(2, 1, 1_000)
    run_until(flows, 0.04)
    flows.reset(1)
    told = run_until(flows, 9)
    assert [(what, origin) for _, what, origin, *_ in told] == [("Sent", 0), ("Delivered", 0), ("Acknowledged", 0)]
    assert told[1][0] == pytest.approx(0.04 + 0.98 + 0.05 + PASSED_ON_S, abs=1e-3)


def test_after_a_death_a_connection_opens_anew() -> None:
    flows = Flows(pair(rate="unlimited"), seed=1)
    flows.send(0, 1, 1000)
    run_until(flows, 1)
    flows.reset(1)
    again = flows.send(0, 1, 1000)
    assert again.number == 1
    assert arrival_s(flows, again) == pytest.approx(1.15, abs=1e-4)


def test_news_are_values_about_the_callers_transfer() -> None:
    flows = Flows(pair(), seed=1, tcp=PLAIN)
    transfer = flows.send(0, 1, 100)
    news = flows.advance(flows.next_s())
    while flows.next_s() < float("inf"):
        news += flows.advance(flows.next_s())
    assert news == [Sent(transfer), Delivered(transfer), Acknowledged(transfer)]


def test_a_connection_that_is_open_needs_no_handshake() -> None:
    opened, fresh = Flows(pair(rate="unlimited"), seed=1), Flows(pair(rate="unlimited"), seed=1)
    opened.connect(0, 1)
    assert arrival_s(opened, opened.send(0, 1, 1000)) == pytest.approx(0.05, abs=0.001)
    assert arrival_s(fresh, fresh.send(0, 1, 1000)) == pytest.approx(0.15, abs=0.001)


def test_what_cannot_be_opened_ahead_is_opened_with_its_first_message() -> None:
    network = pair(rate="unlimited")
    flows = Flows(replace(network, up=np.zeros(network.link_count, dtype=np.bool_)), seed=1)
    flows.connect(0, 1)
    run_until(flows, 0.5)
    flows.change(network)
    assert arrival_s(flows, flows.send(0, 1, 1000)) == pytest.approx(0.5 + 0.15, abs=0.001)


@pytest.mark.parametrize(("lost", "last"), [(False, 1), (True, 56)])
def test_windows_grow_though_messages_follow_one_another_within_a_round_trip(lost: bool, last: int) -> None:
    """Seven segments every 75 ms, over a round trip of 100: two do not fit into a window of ten; later ones do.

    After a loss the window grows as cubic has it, by time: to fourteen after 4.1 s.
    """
    flows = Flows(pair(rate="unlimited"), seed=1)
    flows.connect(0, 1)
    if lost:
        state = flows._state
        state.window[0], state.threshold[0], state.peak[0] = 7 * 1448, 7 * 1448, 10 * 1448
        state.peak_in_s[0] = np.cbrt(3 / 0.4)
    told = []
    for number in range(80):
        flows.send(0, 1, 7 * 1448)
        told += run_until(flows, 0.075 * (number + 1))
    late = [number for at, what, *_, number in told if what == "Delivered" and at > 0.075 * number + 0.051]
    assert late[0] == 1
    assert late[-1] <= last
