"""The network as it is now: the timeline, and what is set by hand on top of it."""

from __future__ import annotations

import math

import pytest

from testbed.engines.fabric.conditions import Conditions, Presence
from testbed.errors import UsageProblem
from testbed.network.timeline import NodesChange
from testbed.protocol.fabric import SetLink
from testbed.topologies.load import load_bytes
from testbed.topologies.model import NodeAction
from testbed.topologies.source import Form
from tests.engines.world import links

ENDS = [
    ("n.0", "hub", {"latency": "5ms", "rate": "10Mbps"}),
    ("n.1", "hub", {"latency": "6ms", "rate": "20Mbps", "loss": "1%"}),
]


def conditions(*events: dict[str, object]) -> Conditions:
    text = links(2, ENDS, ("hub",), events=list(events))
    return Conditions(load_bytes(text.encode(), Form.YAML, "test").require(), seed=1)


def latencies(made: Conditions) -> list[float]:
    return [float(each) for each in made.network().latency_ms]


def test_set_by_hand_until_reset() -> None:
    made = conditions()
    assert made.set_links(SetLink(1, "n.0", "hub", latency_ms=50.0, loss=0.1)) == 2
    assert latencies(made) == [50.0, 50.0, 6.0, 6.0]
    assert made.set_links(SetLink(2, "hub", "n.1", both=False, latency_ms=0.0, loss=0.0)) == 1
    assert latencies(made) == [50.0, 50.0, 6.0, 0.0]
    assert [each.changed for each in made.show_links("n.1", "hub", both=True)] == [False, True]
    assert made.reset_links("n.0", "hub", both=True) == 2
    assert latencies(made) == [5.0, 5.0, 6.0, 0.0]
    assert made.reset_links(None, None, both=True) == 1
    assert latencies(made) == [5.0, 5.0, 6.0, 6.0]


def ups(made: Conditions) -> list[bool]:
    return [bool(each) for each in made.network().up]


def test_what_is_held_down_is_afterwards_what_it_would_be_without() -> None:
    made = conditions(
        {"at": "1s", "link": ["n.0", "hub"], "state": "down"},
        {"at": "2s", "link": ["n.0", "hub"], "state": "up"},
    )
    made.hold_down("n.0", "hub", both=True)
    assert ups(made) == [False, False, True, True]
    assert [each.changed for each in made.show_links("n.0", "hub", both=True)] == [True, True]
    made.set_links(SetLink(1, "n.0", "hub", latency_ms=50.0))
    made.set_links(SetLink(2, "n.1", "hub", latency_ms=60.0))
    assert ups(made) == [False, False, True, True]
    made.turn()
    made.let_go("n.0", "hub", both=True)
    assert ups(made) == [False, False, True, True], "the topology has it down"
    assert latencies(made) == [50.0, 50.0, 60.0, 60.0]
    made.hold_down("n.0", "hub", both=True)
    made.turn()
    made.let_go("n.0", "hub", both=True)
    assert ups(made) == [True, True, True, True]


def test_the_last_word_on_a_link_that_is_held_down_counts() -> None:
    made = conditions()
    for up in (False, True):
        made.hold_down("n.0", "hub", both=True)
        made.set_links(SetLink(1, "n.0", "hub", up=up))
        assert ups(made) == [up, up, True, True]
        made.let_go("n.0", "hub", both=True)
        assert ups(made) == [up, up, True, True]
    assert made.reset_links("n.0", "hub", both=True) == 2
    for ends in (("n.0", "hub"), (None, None)):
        made.hold_down("n.0", "hub", both=True)
        assert made.reset_links(*ends, both=True) == 2
        assert ups(made) == [True, True, True, True]
        assert made.reset_links(*ends, both=True) == 0


def test_a_limit_of_the_queue_replaces_the_other_kind() -> None:
    made = conditions()
    made.set_links(SetLink(1, "n.0", "hub", queue_bytes=3000.0))
    (there, _) = made.show_links("n.0", "hub", both=True)
    assert (there.queue_ms, there.queue_bytes) == (math.inf, 3000.0)


@pytest.mark.parametrize(
    "request_",
    [
        SetLink(1, "n.0", "n.1", latency_ms=1.0),
        SetLink(1, "n.7", "hub", latency_ms=1.0),
        SetLink(1, "n.0", "hub"),
        SetLink(1, "n.0", "hub", latency_ms=-1.0),
        SetLink(1, "n.0", "hub", loss=1.5),
        SetLink(1, "n.0", "hub", loss=math.nan),
        SetLink(1, "n.0", "hub", rate_bps=0.0),
        SetLink(1, "n.0", "hub", latency_ms=math.inf),
    ],
)
def test_nonsense_changes_nothing(request_: SetLink) -> None:
    made = conditions()
    with pytest.raises(UsageProblem):
        made.set_links(request_)
    assert latencies(made) == [5.0, 5.0, 6.0, 6.0]


def test_the_timeline_goes_on_below_what_is_set_by_hand() -> None:
    made = conditions(
        {"at": "1s", "link": ["n.0", "hub"], "latency": "30ms"},
        {"at": "2s", "node": "n.1", "do": "crash", "rejoin": "3s"},
        {"at": "2s", "link": ["n.1", "hub"], "latency": "40ms"},
    )
    made.set_links(SetLink(1, "n.0", "hub", latency_ms=7.0))
    turns = []
    while made.next_s < math.inf:
        turns.append(made.turn())
    assert [turn.at_s for turn in turns] == [1.0, 2.0, 5.0]
    assert turns[0].network is not None
    assert [float(each) for each in turns[0].network.latency_ms] == [7.0, 7.0, 6.0, 6.0]
    assert [type(change).__name__ for change in turns[1].changes] == ["LinksChange", "LinksChange", "NodesChange"]
    assert turns[1].network is not None
    assert turns[1].network.up.all(), "who is there is not the network's"
    assert turns[2].network is None
    assert latencies(made) == [7.0, 7.0, 40.0, 40.0]
    made.reset_links(None, None, both=True)
    assert latencies(made) == [30.0, 30.0, 40.0, 40.0]


def test_partitions_by_name() -> None:
    made = conditions()
    made.divide("p", [[0], [1]])
    assert [group.tolist() for group in made.network().partitions] == [[0, 1]]
    assert made.heal("p")
    assert not made.heal("p")
    assert not made.network().partitions


def test_the_last_word_on_who_is_there_counts() -> None:
    presence = Presence({2})
    crash = NodesChange(1.0, NodeAction.CRASH, (0, 1))
    assert list(presence.after(crash)) == [(0, True), (1, True)]
    assert list(presence.change((0, 2), cut=False)) == [(0, False), (2, False)]
    assert presence.cut == {1}
    assert not list(presence.after(NodesChange(2.0, NodeAction.LEAVE, (0,)))), "it has something to send still"
    assert not list(presence.after(NodesChange(2.0, NodeAction.PAUSE, (0,))))
    assert list(presence.after(NodesChange(3.0, NodeAction.JOIN, (0, 1)))) == [(1, False)]
