"""What the Python data plane asks of its model while packets are under way."""

from __future__ import annotations

import math

import pytest

from testbed.network.packets import Packets
from tests.network.test_packets import MTU, pair, times


def test_it_is_known_since_when_the_first_link_of_a_path_is_free() -> None:
    packets = Packets(pair(rate="12Mbps"), seed=1)
    assert packets.route_of(0, 1) is None, "nothing has gone there yet"
    packets.offer(1.0, 0, 1, [MTU] * 3)
    route = packets.route_of(0, 1)
    assert route is not None
    (link,) = route.links
    assert link.free_since_s == math.inf, "it is not known how much comes"
    packets.advance(1.0)
    assert link.free_since_s == pytest.approx(1.003)
    packets.offer(1.002, 0, 1, [MTU])
    packets.advance(1.002)
    assert link.free_since_s == pytest.approx(1.004)


def test_it_is_known_which_segments_are_under_way() -> None:
    packets = Packets(pair(rate="12Mbps", more=", queue: 2ms"), seed=1)
    packets.offer(0.0, 0, 1, [MTU] * 2)
    packets.offer(0.0, 0, 1, [MTU] * 2)
    packets.offer(0.0, 0, 1, [MTU])
    packets.advance(0.0005)
    assert packets.under_way() == {0, 1}, "the third one found the queue full"
    packets.advance(0.022)
    assert packets.under_way() == {1}
    packets.advance(1.0)
    assert packets.under_way() == set()


def test_what_is_due_before_a_cut_is_handed_over() -> None:
    """Though it is asked for later; whose frame it is stays known until then."""
    packets = Packets(pair(), seed=1)
    packets.offer(0.0, 0, 1, [MTU])
    packets.cut(0.03, 1)
    assert packets.under_way() == {0}
    assert packets.next_s() == 0.03
    assert times(packets.advance(0.03)) == pytest.approx([0.021])
    assert packets.under_way() == set()
