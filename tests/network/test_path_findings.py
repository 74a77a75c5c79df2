"""Warnings about paths: what is said, about which pairs, and where."""

from __future__ import annotations

import math

import pytest

from testbed.errors import Finding, Severity, Where
from testbed.network import findings as findings_module
from testbed.network.findings import path_findings, sample_sources
from testbed.network.graph import expand
from testbed.topologies.model import Bridge, Link, LinkProperties, Routing, Service, Topology


def link(origin: str, dest: str, latency_ms: float = 1.0, jitter_ms: float = 0.0, line: int = 1) -> Link:
    return Link(origin, dest, LinkProperties(latency_ms, math.inf, jitter_ms=jitter_ms), where=Where(line, 1))


def both(origin: str, dest: str, latency_ms: float = 1.0, jitter_ms: float = 0.0, line: int = 1) -> tuple[Link, Link]:
    return link(origin, dest, latency_ms, jitter_ms, line), link(dest, origin, latency_ms, jitter_ms, line)


def found(services: str, *links: Link, bridges: str = "", routing: Routing = Routing.HOPS) -> dict[str, Finding]:
    """Findings by code; there may be only one of each."""
    declared = tuple(Service(name, where=Where(90 + place, 2)) for place, name in enumerate(services))
    topology = Topology("t", declared, links, tuple(map(Bridge, bridges)), routing=routing)
    findings = path_findings(topology, expand(topology))
    assert all(finding.severity is Severity.WARNING and finding.hint for finding in findings)
    assert len({finding.code for finding in findings}) == len(findings)
    return {finding.code: finding for finding in findings}


def test_a_sound_network_has_no_findings() -> None:
    assert found("abc", *both("a", "x"), *both("b", "x"), *both("c", "x"), bridges="x") == {}
    assert found("a") == {}
    assert found("") == {}


def test_one_way_links_leave_pairs_without_a_path() -> None:
    findings = found("abc", link("a", "x"), link("x", "b"), *both("c", "x"), bridges="x")
    assert set(findings) == {"unreachable"}
    assert findings["unreachable"].message.startswith("3 of 6 ordered pairs of nodes have no path")
    assert "from `b.0` to `a.0`" in found("ab", link("a", "b"))["unreachable"].message


def test_nodes_that_are_cut_off_altogether() -> None:
    message = found("abcd", *both("a", "b"), *both("c", "d"))["unreachable"].message
    assert message.startswith("8 of 12 ")
    assert "from `a.0` to `c.0`" in message
    assert found("abc")["unreachable"].message.startswith("6 of 6 ")


def test_links_that_start_down_are_no_way() -> None:
    down = Link("a", "b", LinkProperties(1, math.inf), starts_down=True)
    assert found("ab", down, link("b", "a"))["unreachable"].message.startswith("1 of 2 ")


def test_ties_name_both_routes_and_our_choice() -> None:
    links = (*both("a", "y", line=3), *both("y", "b", line=4), *both("a", "x", line=5), *both("x", "b", line=6))
    tie = found("ab", *links, bridges="xy")["ties"]
    assert tie.message.startswith("2 of 2 ordered pairs")
    assert "`a.0 → x → b.0` and `a.0 → y → b.0`" in tie.message
    assert tie.where == Where(3, 1)
    assert "previous hop whose name sorts first" in tie.hint
    assert "Kollaps chooses at random" in tie.hint


def test_a_tie_far_from_the_destination_is_found() -> None:
    chain = [each for place in "pqrs" for each in both(place, chr(ord(place) + 1))]
    links = (*both("a", "y"), *both("y", "p"), *both("a", "x"), *both("x", "p"), *chain, *both("t", "b"))
    message = found("ab", *links, bridges="xypqrst")["ties"].message
    assert "`a.0 → x → p → q → r → s → t → b.0` and `a.0 → y → p → q → r → s → t → b.0`" in message


def test_parallel_links_are_a_tie_between_links() -> None:
    tie = found("ab", link("a", "b", line=1), link("a", "b", 2, line=2), link("b", "a", line=3))["ties"]
    assert tie.message.startswith("1 of 2 ")
    assert "over either of the links from `a.0` to `b.0`" in tie.message


def test_a_tie_depends_on_the_routing() -> None:
    links = (*both("a", "b", 2), *both("a", "x", 1), *both("x", "b", 1))
    assert "ties" not in found("ab", *links, bridges="x")
    tie = found("ab", *links, bridges="x", routing=Routing.LATENCY)["ties"]
    assert "`a.0 → b.0` and `a.0 → x → b.0`" in tie.message
    assert "the fewer hops" in tie.hint


def test_nodes_in_the_way_of_others() -> None:
    transit = found("abc", *both("a", "b"), *both("b", "c"))["transit"]
    assert transit.message.startswith("2 of 6 paths between other nodes go through `b.0`: service `b` ")
    assert transit.where == Where(91, 2)


@pytest.mark.parametrize(("latency_ms", "jitter_ms", "wild"), [(3, 1, False), (0.3, 0.1, False), (3, 1.01, True)])
def test_jitter_beyond_a_third_of_the_latency(latency_ms: float, jitter_ms: float, wild: bool) -> None:
    findings = found("ab", *both("a", "b", latency_ms, jitter_ms, line=7))
    assert set(findings) == ({"jitter"} if wild else set())
    if wild:
        assert findings["jitter"].where == Where(7, 1)
        assert "from `a` to `b`: a jitter of 1.01ms" in findings["jitter"].message


def test_as_many_findings_of_a_kind_as_a_person_reads() -> None:
    services = tuple(Service(f"s{place}") for place in range(50))
    links = [each for place in range(49) for each in both(f"s{place}", f"s{place + 1}", 1, 1, line=place)]
    line = Topology("t", services, tuple(links))
    codes = [finding.code for finding in path_findings(line, expand(line))]
    assert {code: codes.count(code) for code in codes} == {"jitter": 21, "transit": 21}


def test_a_large_network_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_module, "_MOST_STEPS", 500)
    services = tuple(Service(f"s{place}") for place in range(20))
    ring = tuple(each for place in range(20) for each in both(f"s{place}", f"s{(place + 1) % 20}"))
    topology = Topology("t", services, (*ring, link("x", "s0")), (Bridge("x"),))
    first = path_findings(topology, expand(topology))
    messages = {finding.code: finding.message for finding in first}
    # 41 links and 21 vertices for each of the sources: 8 of them. Each ties with the one on the far side.
    assert messages["ties"].startswith("8 of 152 ordered pairs")
    assert "(in a sample of 8 of 20 sources)" in messages["ties"]
    assert "(in a sample of 8 of 20 sources)" in messages["transit"]
    assert path_findings(topology, expand(topology)) == first


@pytest.mark.parametrize("most_bits", [10**9, 1])
def test_unreachable_pairs_are_counted_without_a_sample_where_that_is_cheap(
    most_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings_module, "_MOST_STEPS", 100)
    monkeypatch.setattr(findings_module, "_MOST_BITS", most_bits)
    services = tuple(Service(f"s{place}") for place in range(20))
    topology = Topology("t", services, tuple(link(f"s{place}", f"s{place + 1}") for place in range(19)))
    message = next(each.message for each in path_findings(topology, expand(topology)) if each.code == "unreachable")
    if most_bits > 1:
        assert message.startswith("190 of 380 ordered pairs of nodes have no path, such as from `s1.0` to `s0.0`")
    else:
        assert " of 38 ordered pairs of nodes have no path (in a sample of 2 of 20 sources)" in message


def test_samples_are_sorted_distinct_and_never_empty() -> None:
    network = expand(Topology("t", (Service("a", replicas=30),), ()))
    assert sample_sources(network, 30) == sample_sources(network, 99) == list(range(30))
    some = sample_sources(network, 7)
    assert len(set(some)) == 7
    assert some == sorted(some) == sample_sources(network, 7)
    assert len(sample_sources(network, 0)) == 1
