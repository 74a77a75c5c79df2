"""How Kollaps' scheduler, one event every half second, gets along with a file's times; and the order of events."""

from __future__ import annotations

import re

import pytest

from testbed.errors import Severity
from tests.targets.judging import XML_EVENTS, changed, judged, loaded, only

YAML = """\
services:
  dashboard: {image: d, supervisor: true, port: 8088}
  a: {replicas: 4}
  b: {}
bridges: [x, y]
links:
  - {from: a, to: x, latency: 1ms, rate: 10Mbps}
  - {from: x, to: y, latency: 1ms, rate: 10Mbps}
  - {from: y, to: b, latency: 1ms, rate: 10Mbps}
events:
  - {at: 0s, node: [a], do: join}
  - {at: 0s, node: [b], do: join}
"""


def late(*events: str) -> list[tuple[int, float]]:
    """Which of the events Kollaps would execute late, and by how many seconds."""
    text = YAML + "".join(f"  - {{{event}}}\n" for event in events)
    first = YAML.count("\n") + 1
    found = only(judged(text), "kollaps-event-spacing")
    assert {finding.severity for finding in found} <= {Severity.WARNING}
    return [(each.where.line - first, float(re.findall(r"([0-9.]+)s late", each.message)[0])) for each in found]


CHANGE = "link: [x, y], latency: 2ms, rate: 1Mbps"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([f"at: 10s, {CHANGE}", f"at: 11s, {CHANGE}"], []),
        ([f"at: 10s, {CHANGE}", f"at: 10.75s, {CHANGE}"], [(1, 0.25)]),
        ([f"at: 10s, {CHANGE}"] * 3, [(1, 1.0), (2, 2.0)]),
        ([f"at: 10s, {CHANGE}, one-way: true", f"at: 10.5s, {CHANGE}"], []),
        (["at: 10s, bridge: x, state: down", "at: 10.4s, bridge: x, state: up"], [(1, 0.1)]),
        # A link that was not there before takes three: both directions, and itself.
        (["at: 10s, link: [b, x], state: up, latency: 1ms, rate: 1Mbps", f"at: 11.4s, {CHANGE}"], [(1, 0.1)]),
        (["at: 10s, link: [b, x], state: up, latency: 1ms, rate: 1Mbps", f"at: 11.5s, {CHANGE}"], []),
        # A container's own events and those of the network are one queue.
        ([f"at: 0s, {CHANGE}"], [(-2, 1.0), (-1, 1.0)]),
        ([f"at: 0.3s, {CHANGE}"], [(0, 0.2)]),
        ([f"at: 0.5s, {CHANGE}"], []),
        ([f"at: 10s, {CHANGE}", "at: 10.9s, node: b, do: crash"], [(1, 0.1)]),
        (["at: 10s, node: b, do: crash", "at: 10.1s, node: b, do: join"], [(1, 0.4)]),
        # Other services, and other replicas, have schedulers of their own.
        (["at: 10s, node: b, do: crash", "at: 10.1s, node: a, do: crash, count: 2"], []),
        (["at: 10s, node: a, do: crash, count: 2", "at: 10.1s, node: a, do: crash, count: 2"], []),
        # 1.03 + 1 is a little more than 2.03.
        ([f"at: 1.03s, {CHANGE}", f"at: 2.03s, {CHANGE}"], []),
    ],
)
def test_events_closer_than_kollaps_executes_them_are_late(
    events: list[str], expected: list[tuple[int, float]]
) -> None:
    assert late(*events) == expected


def test_only_links_and_bridges_must_be_written_in_order() -> None:
    text = YAML + "  - {at: 30s, node: b, do: crash}\n  - {at: 20s, link: [x, y], latency: 2ms}\n"
    assert not only(judged(text), "kollaps-event-order")
    (finding,) = only(judged(text + "  - {at: 19s, bridge: x, state: down}\n"), "kollaps-event-order")
    assert finding.severity is Severity.ERROR
    assert finding.where.line == YAML.count("\n") + 3


def test_a_change_written_as_two_elements_is_of_both_directions() -> None:
    one = YAML + "  - {at: 30s, link: [x, y], latency: 2ms, one-way: true}\n"
    assert len(only(judged(one), "kollaps-one-way-event")) == 1
    assert not only(judged(one + "  - {at: 30s, link: [y, x], latency: 2ms, one-way: true}\n"), "kollaps-one-way-event")


def test_so_it_is_in_xml() -> None:
    both = '<schedule origin="x" dest="a" time="10" latency="2"/>'
    text = changed(XML_EVENTS, (' upload="9Mbps" download="9Mbps"/>', "/>" + both))
    assert "kollaps-one-way-event" in {finding.code for finding in loaded(text).findings}
    assert not only(judged(text), "kollaps-one-way-event")


def test_a_link_of_bridges_may_leave_and_join_and_one_of_replicas_may_leave() -> None:
    down = "  - {at: 30s, link: [x, y], state: down}\n"
    up = "  - {at: 40s, link: [x, y], state: up}\n"
    wrong = ("kollaps-replica-link", "kollaps-link-join")
    found = judged(YAML + down + up)
    assert not [finding for finding in found if finding.code in wrong]
    replicas = (down + up).replace("[x, y]", "[a, x]")
    (finding,) = [finding for finding in judged(YAML + replicas) if finding.code in wrong]
    assert (finding.code, finding.where.line) == ("kollaps-replica-link", YAML.count("\n") + 2)
    assert not [each for each in judged(YAML + down.replace("[x, y]", "[a, x]")) if each.code in wrong]
    (finding,) = [finding for finding in judged(YAML + up) if finding.code in wrong]
    assert finding.code == "kollaps-link-join"


def test_a_link_that_came_back_cannot_come_back_again() -> None:
    events = [
        f"  - {{at: {30 + at}s, link: [x, y], state: {state}}}\n" for at, state in enumerate(("down", "up", "up"))
    ]
    (finding,) = only(judged(YAML + "".join(events)), "kollaps-link-join")
    assert finding.where.line == YAML.count("\n") + 3


def test_of_a_link_that_was_down_in_one_direction_both_directions_are_told() -> None:
    events = (
        "  - {at: 30s, link: [a, x], state: down, one-way: true}\n",
        "  - {at: 40s, link: [a, x], state: up}\n",
    )
    found = judged(YAML + "".join(events))
    (back,), (never,) = only(found, "kollaps-replica-link"), only(found, "kollaps-link-join")
    assert back.where == never.where
    assert ("`a` to `x`" in back.message, "`x` to `a`" in never.message) == (True, True)


def test_a_new_link_may_join_without_having_left() -> None:
    found = judged(YAML + "  - {at: 10s, link: [a, y], state: up, latency: 1ms, rate: 1Mbps}\n")
    assert not [finding for finding in found if finding.severity is Severity.ERROR]


def test_a_bridge_may_come_back_as_often_as_it_left() -> None:
    back = "  - {at: 30s, bridge: x, state: down}\n  - {at: 40s, bridge: x, state: up}\n"
    assert not only(judged(YAML + back), "kollaps-bridge-join")
    (finding,) = only(judged(YAML + back + "  - {at: 50s, bridge: x, state: up}\n"), "kollaps-bridge-join")
    assert finding.where.line == YAML.count("\n") + 3


@pytest.mark.parametrize(
    ("disconnect", "reconnects", "refused"), [(4, (2, 1), 0), (4, (3,), 1), (1, (1,), 1), (4, (2, 2), 1)]
)
def test_at_most_half_of_the_disconnected_may_reconnect(
    disconnect: int, reconnects: tuple[int, ...], refused: int
) -> None:
    events = f"  - {{at: 10s, node: a, do: disconnect, count: {disconnect}}}\n"
    events += "".join(
        f"  - {{at: {20 + at}s, node: a, do: reconnect, count: {n}}}\n" for at, n in enumerate(reconnects)
    )
    found = only(judged(YAML + events), "kollaps-reconnect")
    assert len(found) == refused
    assert all(finding.where.line == YAML.count("\n") + 1 + len(reconnects) for finding in found)


def test_a_service_joins_by_node_or_pattern_too() -> None:
    assert not only(judged(YAML.replace("[a]", "'a.*'")), "kollaps-no-join")
    (finding,) = only(judged(YAML.replace("node: [a]", "node: [b]")[: YAML.rindex("  - ")]), "kollaps-no-join")
    assert "`a`" in finding.message
