"""What happens when: repetitions, draws, endings, and the network at a moment."""

from __future__ import annotations

import math

import pytest

from testbed.network.findings import path_findings
from testbed.network.graph import expand
from testbed.network.moment import network_at
from testbed.network.paths import Paths, compute_paths
from testbed.network.timeline import BridgeChange, Change, LinksChange, NodesChange, PartitionChange, Timeline, timeline
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

SITES = """
services: {a: {replicas: 4}, b: {replicas: 4}}
bridges: [ra, rb]
links:
  - {from: a, to: ra, latency: 1ms, up: 100Mbps, down: 50Mbps}
  - {from: b, to: rb, latency: 1ms, up: 100Mbps, down: 50Mbps, shared: true}
  - {from: ra, to: rb, latency: 40ms, jitter: 2ms, loss: 10%, rate: 1Gbps}
events:
"""


def topology(*events: str) -> Topology:
    text = SITES + "\n".join(f"  - {{{event}}}" for event in events)
    return load_bytes(text.encode(), Form.YAML, "t.yaml").require()


def told(changes: list[Change]) -> list[str]:
    """Each change as a line that reads."""
    lines = []
    for change in changes:
        if isinstance(change, NodesChange):
            what = f"{change.action} {','.join(map(str, change.ranks))}"
        elif isinstance(change, LinksChange):
            what = f"{change.origin}>{change.dest} {({None: 'change', True: 'up', False: 'down'})[change.up]}"
        elif isinstance(change, BridgeChange):
            what = f"{change.bridge} {'up' if change.up else 'down'}"
        else:
            what = "parted" if change.begins else "joined"
        lines.append(f"{change.at_s:g} {what}")
    return lines


def story(*events: str, seed: int = 1) -> list[str]:
    return told(list(timeline(topology(*events), seed)))


def paths(at_s: float, *events: str) -> Paths:
    given = topology(*events)
    return compute_paths(network_at(given, expand(given), at_s, seed=1))


def test_times_not_the_file_make_the_order() -> None:
    assert story("at: 9s, node: a, do: crash", "at: 3s, node: b.1, do: crash") == ["3 crash 5", "9 crash 0,1,2,3"]


def test_repetition_and_ending() -> None:
    assert story("every: 5s, from: 1s, until: 11s, link: [ra, rb], state: down, for: 2s, one-way: true") == [
        "1 ra>rb down",
        "3 ra>rb up",
        "6 ra>rb down",
        "8 ra>rb up",
    ]
    assert story("at: 2s, bridge: ra, state: down, for: 3s") == ["2 ra down", "5 ra up"]
    assert story("at: 2s, partition: [a, b], for: 3s") == ["2 parted", "5 joined"]


def test_an_ending_undoes_only_its_own_event() -> None:
    """Someone brings the link up and down again meanwhile: the first event's ending must not end the second."""
    assert story(
        "at: 1s, link: [ra, rb], state: down, for: 10s, one-way: true",
        "at: 2s, link: [ra, rb], state: up, one-way: true",
        "at: 3s, link: [ra, rb], state: down, for: 20s, one-way: true",
    ) == ["1 ra>rb down", "2 ra>rb up", "3 ra>rb down", "23 ra>rb up"]
    assert story(
        "at: 1s, node: a.0, do: pause, for: 10s",
        "at: 2s, node: a.0, do: resume",
        "at: 3s, node: a.0, do: pause, for: 20s",
    ) == ["1 pause 0", "2 resume 0", "3 pause 0", "23 resume 0"]


def test_draws_are_of_those_it_can_happen_to_and_come_back_themselves() -> None:
    lines = story("every: 5s, from: 0s, until: 20s, node: '*', do: crash, count: 3, rejoin: 12s")
    drawn = {line.split()[0]: line.split()[2] for line in lines if "crash" in line}
    back = {line.split()[0]: line.split()[2] for line in lines if "join" in line}
    away = [set(drawn[at].split(",")) for at in ("0", "5", "10")]
    assert [len(group) for group in away] == [3, 3, 2]  # at 10 only two are left
    assert len(set.union(*away)) == 8
    assert back == {"12": drawn["0"], "17": drawn["5"], "22": drawn["10"], "27": drawn["15"]}


def test_the_seed_decides_and_nothing_else() -> None:
    event = "every: 1s, from: 0s, until: 30s, node: '*', do: pause, count: 2, for: 1s"
    assert story(event, seed=1) == story(event, seed=1)
    assert story(event, seed=1) != story(event, seed=2)
    alone = [line for line in story(event, seed=1) if "pause" in line]
    beside = [line for line in story(event, "at: 40s, node: a, do: crash", seed=1) if "pause" in line]
    assert alone == beside


def test_what_cannot_happen_does_not() -> None:
    assert story("at: 5s, node: '*', do: crash, count: 8", "at: 6s, node: '*', do: crash, count: 1") == [
        "5 crash 0,1,2,3,4,5,6,7"
    ]


def test_the_end_of_a_time_span_is_in_it() -> None:
    changes = timeline(topology("at: 5s, node: a, do: crash", "at: 6s, node: b, do: crash"), 1, until_s=5.0)
    assert told(list(changes)) == ["5 crash 0,1,2,3"]


def test_links_change_at_their_time_and_keep_the_rest() -> None:
    event = "at: 30s, link: [ra, rb], latency: 80ms, up: 2Mbps"
    before, after = paths(29.9, event), paths(30.0, event)
    assert (before.latency_ms[0, 4], before.bandwidth_bps[0, 4]) == (42.0, 50e6)
    assert (after.latency_ms[0, 4], after.bandwidth_bps[0, 4]) == (82.0, 2e6)
    assert (after.latency_ms[4, 0], after.bandwidth_bps[4, 0]) == (82.0, 50e6)
    assert after.loss[0, 4] == before.loss[0, 4] == pytest.approx(0.1)


def test_a_change_of_some_nodes_links_is_theirs_alone() -> None:
    after = paths(1, "at: 1s, link: [a.1, ra], latency: 9ms, rate: 3Mbps")
    assert after.latency_ms[0, 2] == 2.0
    assert (after.latency_ms[1, 2], after.latency_ms[2, 1]) == (10.0, 10.0)
    assert after.bandwidth_bps[1, 2] == 3e6


def test_a_shared_link_changes_as_a_whole() -> None:
    after = paths(1, "at: 1s, link: [b, rb], latency: 9ms, rate: 3Mbps, loss: 50%")
    assert after.latency_ms[4, 0] == 50.0
    assert after.bandwidth_bps[4, 0] == after.bandwidth_bps[4, 5] == 3e6
    assert (after.latency_ms[4, 5], after.loss[4, 5]) == (0.0, 0.0)


def test_who_is_away_has_no_paths() -> None:
    events = ("at: 5s, node: a.0, do: crash, rejoin: 5s", "at: 7s, node: b.0, do: join", "at: 5s, node: a.1, do: pause")
    assert not paths(0, *events).reachable[4].any()
    assert not paths(6, *events).reachable[0].any()
    assert paths(6, *events).reachable[1, 2]  # paused, but its links are there
    assert paths(10, *events).reachable[0, 4]


def test_bridges_and_partitions() -> None:
    events = ("at: 5s, bridge: rb, state: down, for: 1s", "at: 8s, partition: [[a.0, a.1], b], for: 1s")
    assert not paths(5, *events).reachable[0, 4]
    assert paths(6, *events).reachable[0, 4]
    parted = paths(8, *events)
    assert not parted.reachable[0, 4]
    assert not parted.reachable[4, 0]
    assert (parted.loss[0, 4], parted.hops[0, 4], parted.latency_ms[0, 4]) == (1.0, -1, math.inf)
    assert parted.reachable[0, 1]
    assert parted.reachable[0, 2]
    assert parted.reachable[2, 4]
    assert paths(9, *events).reachable[0, 4]


def test_a_link_that_an_event_creates() -> None:
    event = "at: 5s, link: [a, b], state: up, latency: 1ms, rate: 1Mbps"
    assert paths(4, event).latency_ms[0, 4] == 42.0
    assert paths(5, event).latency_ms[0, 4] == 1.0


def test_partitions_are_numbered_apart() -> None:
    changes = list(timeline(topology("every: 1s, until: 3s, partition: [a, b], for: 2s"), 1))
    numbers = [change.number for change in changes if isinstance(change, PartitionChange) and change.begins]
    assert len(set(numbers)) == 3


@pytest.mark.parametrize(
    ("events", "idle"),
    [
        (("at: 3s, node: a.0, do: crash", "at: 4s, node: a.0, do: crash"), [1]),
        (("at: 3s, node: a.0, do: crash", "at: 4s, node: a.0, do: pause"), [1]),
        (("at: 4s, node: a.0, do: resume",), [0]),
        (("at: 3s, link: [ra, rb], state: down", "at: 4s, link: [ra, rb], state: down"), [1]),
        (("at: 3s, link: [ra, rb], state: up",), [0]),
        (("at: 3s, bridge: ra, state: down, for: 1s", "at: 5s, bridge: ra, state: up"), [1]),
        (("at: 3s, link: [ra, rb], state: down, for: 1s", "at: 5s, link: [ra, rb], state: down"), []),
        (("at: 3s, link: [a, b], state: up, latency: 1ms, rate: 1Mbps",), []),
        (("at: 1s, link: [a.0, ra], state: down", "at: 2s, link: [a, ra], state: up"), []),
        (("at: 1s, link: [a, ra], state: up, latency: 9ms",), []),
        (
            ("at: 3s, node: a.0, do: crash", "at: 4s, node: '*', do: crash, count: 1", "at: 5s, node: a.0, do: pause"),
            [],
        ),
    ],
)
def test_events_that_find_nothing_to_do_are_told(events: tuple[str, ...], idle: list[int]) -> None:
    given = topology(*events)
    told = [finding for finding in path_findings(given, expand(given)) if finding.code == "no-effect"]
    first_event_line = SITES.count("\n") + 1
    assert [finding.where.line - first_event_line for finding in told] == idle


def test_a_created_link_is_as_its_events_say() -> None:
    create = "every: 20s, from: 0s, until: 50s, link: [a, b], state: up, latency: 3ms, rate: 1Mbps"
    change = "at: 10s, link: [a, b], latency: 39ms"
    assert [paths(at, create, change).latency_ms[0, 4] for at in (0, 10, 25)] == [3.0, 39.0, 3.0]


def test_a_rejoin_does_not_bring_back_who_left_later() -> None:
    events = (
        "at: 1s, node: a.0, do: crash, rejoin: 10s",
        "at: 5s, node: a.0, do: join",
        "at: 8s, node: a.0, do: leave",
    )
    assert story(*events) == ["1 crash 0", "5 join 0", "8 leave 0"]


def test_an_ending_leaves_alone_what_another_event_took_down_later() -> None:
    events = ("at: 10s, link: [a, ra], state: down, for: 20s", "at: 15s, link: [a.0, ra], state: down, for: 100s")
    at_40 = paths(40, *events)
    assert not at_40.reachable[0, 4]
    assert at_40.reachable[1, 4]
    assert paths(115, *events).reachable[0, 4]


def test_one_replicas_share_of_a_link_is_the_whole_link() -> None:
    after = paths(1, "at: 1s, link: [b.0, rb], rate: 1Mbps")
    assert {after.bandwidth_bps[rank, 0] for rank in range(4, 8)} == {1e6}
    down = paths(1, "at: 1s, link: [b.0, rb], state: down")
    assert not down.reachable[4:, 0].any()
    assert not down.reachable[4:, 4:].any()


def test_many_like_partitions_are_one() -> None:
    given = topology("every: 1s, until: 500s, partition: [a, b]")
    assert len(network_at(given, expand(given), 499, seed=1).partitions) == 1


def test_one_timeline_has_many_readers_each_with_a_place_of_its_own() -> None:
    given = topology("at: 3s, node: a.0, do: crash", "at: 1s, partition: [a, b]", "at: 2s, node: b.0, do: leave")
    changes = Timeline(given, seed=1)
    first, of_nodes = iter(changes), changes.of_nodes()
    assert [next(first).at_s, next(first).at_s] == [1, 2]
    assert next(of_nodes).at_s == 2
    assert [each.at_s for each in first] == [3]
    assert [each.at_s for each in of_nodes] == [3]
    assert list(changes) == list(timeline(given, 1))
    assert [each.at_s for each in Timeline(given, 1, until_s=2)] == [1, 2]
