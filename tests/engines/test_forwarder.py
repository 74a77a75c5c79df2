"""Frames over the packet model, without any device."""

from __future__ import annotations

import socket

import pytest

from testbed.engines.fabric.deliveries import Wait
from testbed.engines.fabric.native_plane.forwarder import NativeForwarder
from testbed.engines.fabric.python_plane.forwarder import Forwarder
from testbed.network.graph import expand
from testbed.plan.addresses import address
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from tests.engines.test_frames import ip as packet
from tests.engines.test_frames import super_segment, vnet
from tests.engines.world import links, pair


@pytest.fixture(params=[Forwarder, NativeForwarder], ids=["python", "native"], autouse=True)
def _each_forwarder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request.module, "Forwarder", request.param)


def forwarder(topology: str) -> Forwarder:
    loaded = load_bytes(topology.encode(), Form.YAML, "test").require()
    addresses = [socket.inet_aton(address(node.rank)) for node in loaded.nodes]
    return Forwarder(expand(loaded), addresses, seed=1, mtu=1500)


def wait_of(made: Forwarder, now_s: float, data: bytes, since_s: float) -> Wait:
    """Of a frame that the first node has written, and that is carried."""
    wait = made.offer(now_s, 0, data, since_s)
    assert wait is not None
    return wait


def test_a_super_segment_arrives_whole_where_nothing_parts_it() -> None:
    made = forwarder(pair("10ms"))
    made.offer(0.0, 0, super_segment(10_000))
    assert not list(made.advance(0.009999))
    (delivery,) = made.advance(0.0101)
    assert b"".join(delivery.data) == super_segment(10_000)
    assert (delivery.dest, delivery.due_s, delivery.packets, delivery.size_bytes) == (1, 0.01, 7, 10_000 + 7 * 52)
    assert (made.held, made.held_bytes) == (0, 0)


def test_a_rate_parts_it_and_every_byte_arrives_once() -> None:
    made = forwarder(pair("10ms", "10Mbps"))
    made.offer(0.0, 0, super_segment(10_000))
    found = list(made.advance(1.0))
    assert [(each.packets, each.size_bytes) for each in found] == [(1, 1500)] * 6 + [(1, 1312 + 52)]
    assert found[-1].due_s == 0.01 + (10_000 + 7 * 52) * 8 / 10e6
    payload = b"".join(b"".join(each.data)[62:] for each in found)
    assert payload == super_segment(10_000)[62:]
    assert (made.held, made.held_bytes) == (0, 0)


def test_what_is_lost_is_lost_by_the_piece_and_not_held_for_ever() -> None:
    made = forwarder(pair("10ms", loss="30%"))
    for number in range(100):
        made.offer(number / 1e3, 0, super_segment(10_000))
    arrived = sum(each.packets for each in made.advance(10.0))
    dropped = int(made.packets.snapshot().links.dropped_loss.sum())
    assert arrived + dropped == 700
    assert 150 < dropped < 270
    assert made.held > 50
    made.release()
    assert (made.held, made.held_bytes) == (0, 0)


def test_a_frame_read_late_matters_only_where_its_link_stood_idle() -> None:
    made = forwarder(pair("10ms", "10Mbps"))
    frame = super_segment(10_000)
    sending_s = (10_000 + 7 * 52) * 8 / 10e6
    assert wait_of(made, 1.0, frame, 0.5)[0] == 0.0, "nothing is known of a link that was never used"
    list(made.advance(1.0))
    assert wait_of(made, 1.001, frame, 0.9)[0] == 0.0, "the link had others to send"
    list(made.advance(1.001))
    free_s = 1.0 + 2 * sending_s
    assert wait_of(made, free_s + 0.01, frame, 1.0)[0] == pytest.approx(0.01)
    list(made.advance(free_s + 0.01))
    assert wait_of(made, free_s + 1.0, frame, free_s + 0.9)[0] == pytest.approx(0.1)


def test_many_short_waits_of_a_link_for_its_node_add_up() -> None:
    """Each frame finds its link idle for 0.1 ms; the hundredth is 10 ms later than had all been read at once."""
    made = forwarder(pair("10ms", "10Gbps"))
    frame = super_segment(1448)
    sending_s = 1500 * 8 / 10e9
    now_s = 1.0
    for number in range(1, 101):
        now_s += sending_s + 1e-4
        idle_s, added_s, latency_s = wait_of(made, now_s, frame, 1.0)
        list(made.advance(now_s))
        assert latency_s == pytest.approx(0.01)
        if number > 1:
            assert (idle_s, added_s) == pytest.approx((1e-4, number * 1e-4), rel=0.02)
    assert wait_of(made, now_s + 1e-4, frame, now_s)[1] == pytest.approx(1e-4), "never more than it has waited itself"
    list(made.advance(now_s + 1e-4))
    assert wait_of(made, now_s + 2e-4, frame, now_s + 3e-4)[:2] == (0.0, 0.0), "it woke the fabric"


def test_a_wait_adds_nothing_where_the_link_is_honestly_full() -> None:
    """A burst at once to a slow link: each frame would wait for those before it anyway, here or there."""
    made = forwarder(pair("10ms", "10Mbps"))
    frame = super_segment(1448)
    assert wait_of(made, 1.0, frame, 1.0)[1] == 0.0
    for number in range(1, 50):
        now_s = 1.0 + number * 5e-4
        list(made.advance(now_s))
        assert wait_of(made, now_s, frame, 1.0)[:2] == (0.0, 0.0)


def test_nothing_on_its_way_is_released() -> None:
    made = forwarder(pair("10ms", "10Mbps"))
    made.offer(0.0, 0, super_segment(10_000))
    assert list(made.advance(0.0125))
    made.release()
    assert made.held == 1
    assert list(made.advance(1.0))


def test_what_cannot_be_carried_is_counted_by_its_sender() -> None:
    made = forwarder(links(3, [("n.0", "n.1", {"latency": "1ms", "rate": "unlimited"})]))
    waits = [made.offer(0.0, 0, b"noise"), made.offer(0.0, 1, vnet() + packet(b"x", 17))]
    for dest in ("224.0.0.1", "198.18.9.9", "198.18.0.1", "198.18.0.3"):
        waits.append(made.offer(0.0, 0, vnet() + packet(b"x", 17, dest=socket.inet_aton(dest))))
    assert waits == [None] * 6, "nor is it counted among the frames that did not wait"
    assert made.unfit[0] == {"malformed": 1, "multicast": 1, "unknown_destination": 2}
    assert made.unfit[1] == {"foreign_source": 1}
    assert made.packets.snapshot().no_path == 1
    assert not list(made.advance(1.0))
    assert made.held == 0
