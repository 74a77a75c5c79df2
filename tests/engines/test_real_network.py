"""The fabric between real namespaces, with the kernel's own TCP/IP. Bounds are wide: the machine may be busy."""

from __future__ import annotations

import math
import os
import select
import socket
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from testbed.engines.counters import CounterReader
from testbed.engines.fabric.requests import Note
from testbed.engines.namespace import TcpSettings
from testbed.engines.privileges import User
from testbed.plan.addresses import address
from testbed.protocol.fabric import (
    Applied,
    Capture,
    Cut,
    Denied,
    Detach,
    Done,
    Heal,
    Links,
    NodeAttached,
    NodeDetached,
    Partition,
    ResetLink,
    SetLink,
    ShowLink,
    Uncut,
)
from tests.engines.world import (
    NOBODY,
    PORT,
    World,
    echo_times,
    links,
    need_tun_for_all,
    needs_network,
    pair,
    tcp_receiver,
    tcp_sender,
    world,
)

pytestmark = [needs_network, pytest.mark.alone]
EARLY_MS = 0.02
"""The fabric takes what woke it for as old as waking up takes at the least: now and then it is a little younger."""
GOODPUT = 1448 / 1500


def notes_until(made: World, wanted: Callable[[Note], bool], within_s: float = 5.0) -> list[Note]:
    found: list[Note] = []
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        select.select([made.control], [], [], 0.1)
        found += made.control.notes()
        if any(wanted(each) for each in found):
            return found
    raise AssertionError(found)


def total(made: World, column: str, origin: str, dest: str) -> int:
    """Of one link, over the whole run."""
    return sum(
        link.get(column, 0)
        for line in made.lines()
        for link in line["links"]
        if (link["origin"], link["dest"]) == (origin, dest)
    )


def test_a_round_trip_takes_twice_the_latency(tmp_path: Path) -> None:
    with world(pair("10ms"), tmp_path) as made:
        one, _ = made.node(0, echo_times(address(1), 60, 0.005)), made.node(1)
        made.begin()
        one.start()
        times_ms = one.result()
        assert len(times_ms) == 60
        assert min(times_ms) >= 20.0 - EARLY_MS
        assert 20.0 <= statistics.median(times_ms) <= 22.0
        health = made.finish()
    assert [node.packets_out for node in health.nodes] == [60, 60]
    assert all(not node.unfit and not node.failed for node in health.nodes)
    assert health.in_flight == health.held_frames == 0
    assert total(made, "packets", "n.0", "n.1") == total(made, "packets", "n.1", "n.0") == 60
    assert total(made, "bytes", "n.0", "n.1") == 60 * 84 - 60 * 8  # 48 bytes and both headers


def test_tcp_gets_the_rate_of_the_link_with_the_planned_congestion_control(tmp_path: Path) -> None:
    with world(pair("10ms", "50Mbps", queue="50ms"), tmp_path) as made:
        one = made.node(0, tcp_sender(address(1), 4.5), tcp=TcpSettings(congestion="reno"))
        other = made.node(1, tcp_receiver(2.0, warm_up_s=2.0))
        made.begin()
        one.start()
        other.start()
        assert 0.9 <= other.result() / (50e6 * GOODPUT) <= 1.005
        assert one.result() == "reno"


def test_lost_datagrams_are_exactly_those_that_the_fabric_dropped(tmp_path: Path) -> None:
    with world(pair("5ms", loss="5%"), tmp_path) as made:
        one = made.node(0, datagrams(address(1), 3000, 10, 0.001))
        other = made.node(1, datagrams_received(3000))
        other.start_listening()
        one.start()
        one.result()
        missing = 3000 - other.result()
        assert 100 < missing < 200
        made.finish()
    assert total(made, "dropped_loss", "n.0", "n.1") == missing
    assert total(made, "packets", "n.0", "n.1") == 3000


def test_fragments_arrive_and_are_put_together(tmp_path: Path) -> None:
    with world(pair("5ms"), tmp_path) as made:
        one = made.node(0, datagrams(address(1), 20, 1, 0.005, size=9000))
        other = made.node(1, datagrams_received(20))
        other.start_listening()
        one.start()
        assert other.result() == 20
        one.result()


def test_two_nodes_share_a_bottleneck(tmp_path: Path) -> None:
    ends = [
        ("n.0", "hub", {"latency": "5ms", "rate": "unlimited"}),
        ("n.1", "hub", {"latency": "5ms", "rate": "unlimited"}),
        ("hub", "n.2", {"latency": "5ms", "rate": "20Mbps", "queue": "50ms"}),
    ]
    with world(links(3, ends, ("hub",)), tmp_path) as made:
        senders = [made.node(rank, tcp_sender(address(2), 7.0, PORT + rank)) for rank in (0, 1)]
        receiver = made.node(2, both_receivers(4.0))
        receiver.start()
        for sender in senders:
            sender.start()
        shares = [rate / (20e6 * GOODPUT) for rate in receiver.result()]
        made.finish()
    assert 0.9 <= sum(shares) <= 1.02
    assert all(0.15 <= share <= 0.85 for share in shares)
    assert max(link["queue_max_ms"] for line in made.lines() for link in line["links"]) <= 51.0


def test_a_live_change_shows_at_once_and_so_does_its_end(tmp_path: Path) -> None:
    with world(pair("10ms"), tmp_path) as made:
        one, _ = made.node(0, timed_echoes(address(1), 2.4)), made.node(1)
        made.begin()
        one.start()
        changes_s = []
        for wanted_ms in (30.0, 0.0):
            time.sleep(0.5)
            done = made.control.ask(partial(SetLink, origin="n.0", dest="n.1", latency_ms=wanted_ms))
            assert isinstance(done, Done)
            changes_s.append(done.monotonic_s)
        time.sleep(0.5)
        done = made.control.ask(ResetLink)
        assert isinstance(done, Done)
        changes_s.append(done.monotonic_s)
        echoes: list[tuple[float, float]] = one.result()
        shown = made.control.ask(lambda n: ShowLink(n, "n.0", "n.1"))
        assert isinstance(shown, Links)
        assert [(link.latency_ms, link.changed) for link in shown.links] == [(10.0, False)] * 2
    begun_s = changes_s[0] - 0.5
    for (after_s, before_s), (least_ms, most_ms) in zip(
        zip([begun_s, *changes_s], [*changes_s, float("inf")], strict=True),
        [(20, 24), (60, 64), (0, 4), (20, 24)],
        strict=True,
    ):
        times_ms = [rtt for sent_s, rtt in echoes if after_s + 0.05 <= sent_s and sent_s + rtt / 1e3 < before_s]
        assert len(times_ms) > 10
        assert least_ms <= statistics.median(times_ms) <= most_ms
        assert min(times_ms) >= least_ms - EARLY_MS


def test_the_timeline_applies_itself_and_says_so(tmp_path: Path) -> None:
    ends = [("n.0", "n.1", {"latency": "10ms", "rate": "unlimited"})]
    events = [
        {"at": "0.4s", "link": ["n.0", "n.1"], "latency": "30ms"},
        {"at": "0.8s", "node": "n.1", "do": "disconnect", "for": "0.4s"},
    ]
    with world(links(2, ends, events=events), tmp_path, time_scale=2.0) as made:
        one, _ = made.node(0, timed_echoes(address(1), 3.2)), made.node(1)
        one.start()
        t0_s = made.begin()
        echoes: list[tuple[float, float]] = one.result()
        told = made.control.notes()
        assert made.status().t == pytest.approx((time.monotonic() - t0_s) / 2.0, abs=0.1)
    applied = [note for note in told if isinstance(note, Applied)]
    changes = ["link n.0 -> n.1: latency 30ms", "link n.1 -> n.0: latency 30ms"]
    assert [(note.planned_s, note.change) for note in applied] == [(0.4, change) for change in changes]
    assert all(0 <= note.applied_s - note.planned_s <= 0.05 for note in applied)
    # At time scale 2, everything takes twice as long.
    before = [rtt for sent_s, rtt in echoes if sent_s - t0_s < 0.7]
    after = [rtt for sent_s, rtt in echoes if 0.9 < sent_s - t0_s < 1.4]
    gone = [rtt for sent_s, rtt in echoes if 1.65 < sent_s - t0_s < 2.3]
    again = [rtt for sent_s, rtt in echoes if sent_s - t0_s > 2.5]
    assert 40 <= statistics.median(before) <= 44
    assert 120 <= statistics.median(after) <= 124
    assert not gone
    assert again


def test_cut_partitioned_and_back(tmp_path: Path) -> None:
    with world(pair("1ms"), tmp_path) as made:
        one, _ = made.node(0, timed_echoes(address(1), 2.0)), made.node(1)
        one.start()
        times_s = []
        for make in (
            lambda n: Cut(n, (1,)),
            lambda n: Uncut(n, (1,)),
            lambda n: Partition(n, "p", ((0,), (1,))),
            lambda n: Heal(n, "p"),
        ):
            time.sleep(0.3)
            done = made.control.ask(make)
            assert isinstance(done, Done)
            times_s.append(done.monotonic_s)
        echoes: list[tuple[float, float]] = one.result()
        assert isinstance(made.control.ask(lambda n: Cut(n, (2,))), Denied)
    sent = [sent_s for sent_s, _ in echoes]
    for is_silent, begin_s, end_s in zip(
        [False, True, False, True, False], [0.0, *times_s], [*times_s, math.inf], strict=True
    ):
        answered = [each for each in sent if begin_s + 0.002 < each < end_s - 0.01]
        assert (not answered) is is_silent


def test_a_node_that_comes_back_replaces_what_it_was(tmp_path: Path) -> None:
    with world(pair("1ms"), tmp_path) as made:
        made.node(1)
        first = made.node(0)
        again = made.node(0, echo_times(address(1), 5, 0.0))
        again.start()
        assert len(again.result()) == 5
        assert made.status().attached == 2
        first.start()
        made.control.ask(lambda n: Detach(n, (0,)))
        assert made.status().attached == 1
        told = made.control.notes()
    assert NodeAttached(0, again=True) in told
    assert [note for note in told if isinstance(note, NodeDetached)] == [
        NodeDetached(0, "replaced"),
        NodeDetached(0, "asked for"),
    ]


@pytest.mark.skipif(os.getuid() != 0, reason="every other test here ran it as an ordinary user")
def test_an_ordinary_user_needs_no_more(tmp_path: Path) -> None:
    need_tun_for_all()
    with world(pair("10ms"), tmp_path) as made:
        for rank in (0, 1):
            (Path(made.config.sockets) / "nodes" / str(rank) / "fabric.sock").chmod(0o777)
        nobody = User(NOBODY, NOBODY)
        one = made.node(0, echo_times(address(1), 20, 0.0), user=nobody)
        other = made.node(1, what_is_left_of_privileges, user=nobody)
        one.start()
        other.start()
        assert 20.0 <= statistics.median(one.result()) <= 23.0
        assert other.result() == {"uid": NOBODY, "CapEff": 0, "CapPrm": 0, "CapBnd": 0, "NoNewPrivs": 1}


def test_nodes_and_the_fabric_have_given_up_their_privileges(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        one = made.node(0, what_is_left_of_privileges)
        one.start()
        mine = one.result()
        fabric = privileges_of(made.fabric.pid)
        if os.getuid() != 0:
            del fabric["CapBnd"]  # which an ordinary user cannot empty, and without new privileges needs not
        assert mine.items() >= fabric.items()
        assert mine["CapEff"] == mine["CapBnd"] == 0


def test_a_capture_holds_what_the_node_sees(tmp_path: Path) -> None:
    path = tmp_path / "n.pcap"
    with world(pair("1ms"), tmp_path) as made:
        one, _ = made.node(0, echo_times(address(1), 5, 0.0)), made.node(1)
        made.control.ask(lambda n: Capture(n, 0, str(path)))
        one.start()
        assert len(one.result()) == 5
        made.control.ask(lambda n: Capture(n, 0, None))
        assert isinstance(made.control.ask(lambda n: Capture(n, 0, "/nowhere/at/all")), Denied)
    data = path.read_bytes()
    assert struct.unpack_from("=IHH", data) == (0xA1B23C4D, 2, 4)
    assert struct.unpack_from("=I", data, 20) == (101,)
    packets, at = [], 24
    while at < len(data):
        size, whole = struct.unpack_from("=II", data, at + 8)
        assert size == whole
        packets.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    kinds = [packet[20] for packet in packets]
    assert kinds == [8, 0] * 5  # echo request, echo reply


def test_a_burst_that_the_device_could_not_hold_is_reported_by_the_node(tmp_path: Path) -> None:
    with world(pair("1ms"), tmp_path) as made:
        one = made.node(0, dropped_in_a_burst(address(1)))
        one.start()
        sent, dropped = one.result()
        time.sleep(0.3)
        health = made.finish()
    assert health.nodes[0].frames_in + dropped == sent


# -- what nodes do -----------------------------------------------------------------------------------------------------


def timed_echoes(dest: str, seconds: float) -> Callable[[], list[tuple[float, float]]]:
    """When each was sent and how long it took, in milliseconds; those that got no answer in time are left out."""

    def work() -> list[tuple[float, float]]:
        found = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as icmp:
            until_s, sent, number, next_s = time.monotonic() + seconds, {}, 0, 0.0
            while (now_s := time.monotonic()) < until_s:
                if now_s >= next_s:
                    sent[number] = now_s
                    icmp.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, number), (dest, 0))
                    number, next_s = number + 1, now_s + 0.005
                if select.select([icmp], [], [], 0.005)[0]:
                    came = struct.unpack_from("!H", icmp.recv(2048), 6)[0]
                    found.append((sent[came], (time.monotonic() - sent[came]) * 1e3))
        return found

    return work


def datagrams(dest: str, count: int, at_once: int, every_s: float, size: int = 200) -> Callable[[], None]:
    def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in range(count):
                sender.sendto(bytes(size), (dest, PORT))
                if number % at_once == at_once - 1:
                    time.sleep(every_s)

    return work


def datagrams_received(most: int) -> Callable[[], int]:
    """How many came, until a second of silence."""

    def work() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            receiver.bind(("0.0.0.0", PORT))  # noqa: S104 - in a namespace of its own
            receiver.settimeout(1.0)
            count = 0
            while count < most:
                try:
                    receiver.recv(65_536)
                except TimeoutError:
                    break
                count += 1
            return count

    return work


def both_receivers(seconds: float) -> Callable[[], list[float]]:
    """The bits per second of two connections at the same time."""

    def work() -> list[float]:
        with socket.create_server(("0.0.0.0", PORT)) as one, socket.create_server(("0.0.0.0", PORT + 1)) as other:  # noqa: S104
            connections = [one.accept()[0], other.accept()[0]]
            received = [0, 0]
            begun_s = time.monotonic() + 2.0
            while (now_s := time.monotonic()) < begun_s + seconds:
                for ready in select.select(connections, [], [], 0.1)[0]:
                    size = len(ready.recv(1 << 18))
                    if now_s >= begun_s:
                        received[connections.index(ready)] += size
            return [size * 8 / seconds for size in received]

    return work


def privileges_of(process: int | str) -> dict[str, int]:
    text = Path("/proc", str(process), "status").read_text()
    lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    found = {name: int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")}
    return {**found, "NoNewPrivs": int(lines["NoNewPrivs"])}


def what_is_left_of_privileges() -> dict[str, int]:
    return {"uid": os.getuid(), **privileges_of("self")}


def dropped_in_a_burst(dest: str) -> Callable[[], tuple[int, int]]:
    def work() -> tuple[int, int]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
            count = 30_000
            for _ in range(count):
                sender.sendto(b"x", (dest, PORT))
            time.sleep(0.5)
            return count, CounterReader().read().tx_dropped

    return work
