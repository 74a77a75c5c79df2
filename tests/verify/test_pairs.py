"""Which pairs are measured, what is asked of them, how long it takes, and what runs beside what."""

from __future__ import annotations

import math

import pytest
import yaml

from testbed.network.graph import Network, expand
from testbed.topologies.bundled import find_bundled
from testbed.topologies.load import load, load_bytes
from testbed.topologies.source import Form
from testbed.verify.pairs import OneWayPath, Pair, choose_pairs, find_shared
from testbed.verify.prepare import plan_of
from testbed.verify.sizing import Effort, Task, echoes, flood, links_for_probes, losses, seconds_of, tcp, waves


def network_of(links: list[dict[str, str]], services: dict[str, int], bridges: tuple[str, ...] = ()) -> Network:
    document = {
        "services": {name: {"replicas": count} for name, count in services.items()},
        "bridges": list(bridges),
        "links": links,
    }
    return expand(load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "pairs").require())


def link(one: str, other: str, latency: str = "10ms", rate: str = "10Mbps", **more: str) -> dict[str, str]:
    return {"from": one, "to": other, "latency": latency, "rate": rate, **more}


@pytest.fixture(scope="module")
def varied() -> Network:
    """A star of ten nodes; some have something about them."""
    access = [
        link("n.0", "hub", latency="1ms"),
        link("n.1", "hub", latency="2ms"),
        link("n.2", "hub", latency="90ms"),
        link("n.3", "hub", latency="80ms"),
        link("n.4", "hub", rate="1Mbps"),
        link("n.5", "hub", loss="3%"),
        link("n.6", "hub", jitter="2ms"),
        *(link(f"n.{rank}", "hub") for rank in (7, 8, 9)),
    ]
    return network_of(access, {"n": 10}, ("hub",))


def by_why(pairs: list[Pair]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for pair in pairs:
        found.setdefault(pair.why, set()).update((pair.origin, pair.dest))
    return found


def test_the_extremes_come_first(varied: Network) -> None:
    chosen = choose_pairs(varied, 20, seed=1)
    assert len(chosen) == 20
    assert len({frozenset((pair.origin, pair.dest)) for pair in chosen}) == 20
    found = by_why(chosen)
    assert found["shortest"] == {0, 1}
    assert found["longest"] == {2, 3}
    assert 4 in found["slowest"]
    assert 5 in found["most loss"]
    assert 6 in found["most jitter"]
    assert found["drawn"]


def test_the_seed_draws_the_rest(varied: Network) -> None:
    assert choose_pairs(varied, 20, seed=1) == choose_pairs(varied, 20, seed=1)
    assert choose_pairs(varied, 20, seed=1) != choose_pairs(varied, 20, seed=2)
    assert [pair.why for pair in choose_pairs(varied, 3, seed=1)] == ["shortest", "longest", "slowest"]


def test_nobody_without_a_path_is_chosen() -> None:
    alone = network_of([link("a", "b")], {"a": 1, "b": 1, "island": 3})
    assert [(pair.origin, pair.dest) for pair in choose_pairs(alone, 20, seed=1)] == [(0, 1)]
    assert choose_pairs(network_of([], {"a": 2}), 20, seed=1) == []


def way_of(*links: dict[str, str]) -> OneWayPath:
    """Through as many bridges as it takes."""
    ends = ["a", *(f"r{number}" for number in range(1, len(links))), "b"]
    joined = [{**each, "from": one, "to": other} for each, one, other in zip(links, ends[:-1], ends[1:], strict=True)]
    (pair,) = choose_pairs(network_of(joined, {"a": 1, "b": 1}, tuple(ends[1:-1])), 1, seed=1)
    return pair.there


def test_what_is_asked_of_a_way() -> None:
    way = way_of(
        link("", "", "10ms", "10Mbps", jitter="3ms", loss="10%"),
        link("", "", "5ms", "8Mbps", jitter="4ms", loss="20%", background="2Mbps"),
    )
    assert way.latency_s == pytest.approx(0.015)
    assert way.jitter_s == pytest.approx(0.005)
    assert way.loss == pytest.approx(0.28)
    assert way.rate_bps == 6e6
    assert way.sending_s(1000) == pytest.approx(0.0008 + 0.001)


def test_what_a_flood_does_to_queues() -> None:
    fast, slow = link("", "", rate="20Mbps", queue="30ms", loss="10%"), link("", "", rate="10Mbps", queue="50ms")
    arriving, waiting_s, filling_s = way_of(fast, slow).flooded(40e6)
    assert [arriving, waiting_s] == pytest.approx([10e6, 0.08])
    # 20 of 40 Mbps pass the first, a tenth of that is lost, and 8 too many reach the second.
    assert filling_s == pytest.approx(0.03 * 20 / 20 + 0.05 * 10 / 8)
    arriving, waiting_s, _ = way_of(slow, fast).flooded(40e6)
    assert [arriving, waiting_s] == pytest.approx([9e6, 0.05])
    assert way_of(slow).flooded(9e6) == (9e6, 0.0, 0.0)


def test_a_queue_in_bytes_is_a_time_at_its_rate() -> None:
    way = way_of(link("", "", rate="8Mbps", queue="50kB"))
    assert way.flooded(16e6)[1] == pytest.approx(0.05)


def test_a_shared_bottleneck_has_four_flows_of_like_round_trips(varied: Network) -> None:
    shared = find_shared(varied, seed=1)
    assert shared is not None
    assert len(shared.flows) == 4
    assert {flow.there.loss for flow in shared.flows} == {0.0}
    round_trips = [flow.round_trip_s for flow in shared.flows]
    assert max(round_trips) <= 1.25 * min(round_trips)
    common = frozenset.intersection(*(flow.there.links for flow in shared.flows))
    assert common
    assert all(min(flow.there.hops, key=lambda hop: hop.free_bps).free_bps == shared.rate_bps for flow in shared.flows)


def test_a_network_that_loses_everywhere_has_no_such_bottleneck() -> None:
    assert find_shared(network_of([link("a", "b", loss="1%")], {"a": 1, "b": 1}), seed=1) is None


def pair_of(**properties: str) -> Pair:
    (pair,) = choose_pairs(network_of([link("a", "b", **properties)], {"a": 1, "b": 1}), 1, seed=1)
    return pair


def test_as_many_probes_as_give_the_drops_that_are_promised() -> None:
    effort = Effort()
    need = losses(pair_of(loss="0.5%").there, effort)
    assert need is not None
    assert need.count == 100_000
    few = losses(pair_of(loss="0.01%").there, effort)
    assert few is not None
    assert few.count == effort.few_probes
    slow = losses(pair_of(loss="1%", rate="256kbps").there, effort)
    assert slow is not None
    assert slow.per_s * slow.size_bytes * 8 <= 0.25 * 256e3
    assert losses(pair_of(loss="100%").there, effort) is None


def test_jitter_probes_keep_their_distance() -> None:
    need = echoes(pair_of(jitter="3ms"), Effort())
    assert need.count >= 2000
    assert need.least_gap_s == pytest.approx(0.03)


def test_a_flood_is_twice_the_rate_until_after_the_queue_is_full() -> None:
    pair = pair_of(rate="10Mbps", queue="100ms")
    need = flood(pair.there, Effort())
    assert need is not None
    assert need.per_s * need.size_bytes * 8 == pytest.approx(20e6)
    assert need.settling_s > 0.1 + pair.there.latency_s + 0.1
    assert need.count / need.per_s > need.settling_s
    assert flood(pair_of(rate="1Gbps").there, Effort()) is None
    assert flood(pair_of(rate="unlimited").there, Effort()) is None
    assert tcp(pair_of(rate="unlimited")) is None


def test_what_shares_a_link_does_not_run_at_once() -> None:
    works = [
        Task("a", frozenset({1, 2}), 3.0, 0.1),
        Task("b", frozenset({2, 3}), 5.0, 0.1),
        Task("c", frozenset({4}), 1.0, 0.1),
        Task("d", frozenset({5}), 1.0, 0.9),
        Task("e", frozenset({6}), 4.0, 1.0),
    ]
    found = [[work.job for work in wave] for wave in waves(works)]
    assert found == [["b", "c"], ["e"], ["a", "d"]]
    assert seconds_of(waves(works)) == 5 + 4 + 3


def test_probes_share_links_that_do_not_notice_them() -> None:
    assert links_for_probes(pair_of(rate="100Mbps")) == frozenset()
    slow = pair_of(rate="90Mbps")
    assert links_for_probes(slow) == slow.links


def test_twenty_pairs_of_a_loss_free_network_take_three_minutes_at_most() -> None:
    links = [link("n", "hub", "20ms", "50Mbps")]
    document = {"services": {"n": {"replicas": 40}}, "bridges": ["hub"], "links": links}
    topology = load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "free").require()
    plan = plan_of(topology, 20, 1, Effort())
    assert len(plan.pairs) == 20
    assert 30 < plan.seconds <= 180
    assert plan.with_few_drops == 0


def test_flows_of_a_bottleneck_are_watched_for_as_long_as_is_promised() -> None:
    assert (Effort().shared_warm_s, Effort().shared_s) == (5.0, 20.0)


def test_small_losses_would_take_longer_and_it_is_known_beforehand() -> None:
    path = find_bundled("wan16")
    assert path is not None
    plan = plan_of(load(path).require(), 20, 1, Effort())
    assert plan.with_few_drops > 5
    assert plan.thorough_s > 5 * plan.seconds
    assert math.isfinite(plan.thorough_s)
