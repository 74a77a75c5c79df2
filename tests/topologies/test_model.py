"""Names, ranks, selectors, directions, defaults: what a file comes to mean."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from testbed.errors import InvalidInput, Where
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import (
    Link,
    LinkChange,
    LinkEvent,
    LinkProperties,
    NodeAction,
    NodeEvent,
    QueueLimit,
    Routing,
    Topology,
    When,
)
from testbed.topologies.source import Form
from tests.reference import needs_reference, reference_files


def yaml(text: str) -> Topology:
    return load_bytes(text.encode(), Form.YAML, "t.yaml").require()


def test_ranks_count_nodes_in_document_order_and_skip_supervisors() -> None:
    topology = yaml("services: {b: {replicas: 2}, boss: {supervisor: true, replicas: 3}, a: {replicas: 2}}")
    assert [(node.rank, node.name, node.replica) for node in topology.nodes] == [
        (0, "b.0", 0),
        (1, "b.1", 1),
        (2, "a.0", 0),
        (3, "a.1", 1),
    ]
    assert [service.name for service in topology.services] == ["b", "boss", "a"]


@pytest.mark.parametrize(
    ("selector", "ranks"),
    [
        ("a", (0, 1, 2)),
        ("a.1", (1,)),
        ("a.*", (0, 1, 2)),
        ("*", (0, 1, 2, 3)),
        ("*.0", (0, 3)),
        ("?.[12]", (1, 2)),
        ("c", ()),
        ("a.3", ()),
        ("A", ()),
        ("x*", ()),
    ],
)
def test_selectors(selector: str, ranks: tuple[int, ...]) -> None:
    topology = yaml("services: {a: {replicas: 3}, b: }")
    assert tuple(topology.select(selector)) == ranks
    assert topology.select_all([selector, "b"]) == tuple(sorted({*ranks, 3}))


def links(text: str) -> list[Link]:
    return list(yaml("services: {a: {replicas: 2}, b: }\nbridges: [r]\n" + text).links)


def test_a_link_is_two_directions() -> None:
    there, back = links(
        "links: [{from: a, to: r, latency: 5ms, up: 2Mbps, down: 8Mbps, back: {loss: 1%, latency: 9ms}}]"
    )
    assert there == Link("a", "r", LinkProperties(5.0, 2e6))
    assert back == Link("r", "a", LinkProperties(9.0, 8e6, loss=0.01))
    assert there.properties.queue == QueueLimit(ms=250.0)
    assert there.where == Where(3, 9)


def test_the_nearest_value_wins() -> None:
    text = "defaults: {latency: 1ms, rate: 1Mbps, down: 3Mbps, jitter: 0.1ms, queue: 9KiB}\nlinks: "
    there, back = links(text + "[{from: a, to: r, latency: 2ms}]")
    assert (there.properties, back.properties) == (
        LinkProperties(2.0, 1e6, 0.1, queue=QueueLimit(size_bytes=9216)),
        LinkProperties(2.0, 3e6, 0.1, queue=QueueLimit(size_bytes=9216)),
    )
    there, back = links(text + "[{from: a, to: r, rate: 7Mbps, up: unlimited, back: {rate: 5Mbps}}]")
    assert (there.properties.rate_bps, back.properties.rate_bps) == (math.inf, 5e6)


@pytest.mark.parametrize(
    ("shared", "sides"),
    [("true", (True, False)), ("from", (True, False)), ("to", (False, False)), ("both", (True, False))],
)
def test_sharing_matters_only_where_there_are_several(shared: str, sides: tuple[bool, bool]) -> None:
    there, back = links(f"links: [{{from: a, to: r, latency: 1ms, rate: 1Mbps, shared: {shared}}}]")
    assert (there.origin_shared, there.dest_shared) == sides
    assert (back.dest_shared, back.origin_shared) == sides


def test_an_event_on_a_link_is_two_unless_one_way() -> None:
    text = "services: {a: , b: }\nlinks: [{from: a, to: b, latency: 1ms, rate: 1Mbps}]\nevents: ["
    both = yaml(text + "{at: 1s, link: [b, a], loss: 1%, up: 2Mbps}]").events
    change = LinkChange(loss=0.01)
    assert both == (
        LinkEvent(When(1.0), "b", "a", LinkChange(loss=0.01, rate_bps=2e6)),
        LinkEvent(When(1.0), "a", "b", change),
    )
    assert yaml(text + "{at: 1s, link: [b, a], loss: 1%, one-way: true}]").events == (
        LinkEvent(When(1.0), "b", "a", change),
    )


def test_an_event_can_create_a_link() -> None:
    topology = yaml(
        "services: {a: , b: , c: }\nlinks: [{from: a, to: b, latency: 1ms, rate: 1Mbps}]\n"
        "events: [{at: 1s, link: [b, c], state: up, latency: 3ms, rate: 2Mbps}, {at: 2s, link: [c, b], state: down}]"
    )
    created = [link for link in topology.links if link.starts_down]
    assert [(link.origin, link.dest) for link in created] == [("b", "c"), ("c", "b")]
    assert created[0].properties == LinkProperties(3.0, 2e6)
    assert topology.links[:2] == tuple(link for link in topology.links if not link.starts_down)


def test_a_count_of_all_is_all() -> None:
    (event,) = yaml("services: {a: {replicas: 2}}\nevents: [{at: 1s, node: a, do: crash, count: 2, rejoin: 3s}]").events
    assert event == NodeEvent(When(1.0), NodeAction.CRASH, ("a",), None, 3.0)


def test_repetition_does_not_accumulate_errors() -> None:
    times = list(When(0.1, 0.1, 1000.0).times())
    assert len(times) == 9999
    assert times[-1] == 999.9
    assert list(When(0.0, 0.3, 0.9).times()) == [0.0, 0.3, 0.6]
    assert list(When(2.01, 2.01, 8.05).times()) == [2.01, 4.02, 6.03, 8.04]
    assert [When(0.0, 0.1, tenths / 10).count() for tenths in range(1, 50)] == list(range(1, 50))


def test_who_is_absent_at_the_start() -> None:
    topology = yaml(
        "services: {a: {replicas: 3}, b: {replicas: 2}}\n"
        "events: [{at: 9s, node: a.0, do: join}, {at: 5s, node: a.1, do: crash}, {at: 9s, node: a.1, do: join}, "
        "{at: 2s, node: b, do: join, count: 1}]"
    )
    assert starting_absent(topology) == {0, 3, 4}


def test_replicas_follow_the_joins_where_they_are_not_given() -> None:
    events = (
        "events: [{at: 0s, node: a, do: join, count: 2}, {at: 1s, node: a, do: crash, count: 1}, "
        "{at: 2s, node: a, do: join, count: 1}]"
    )
    assert yaml("services: {a: }\n" + events).services[0].replicas == 2
    assert yaml("services: {a: {reuse: false}}\n" + events).services[0].replicas == 3


def test_the_name_is_the_files_unless_it_says_another(tmp_path: Path) -> None:
    path = tmp_path / "my net.yaml"
    path.write_text("services: {a: }")
    assert load(path).require().name == "my net"
    path.write_text("name: other\nservices: {a: }")
    assert load(path).require().name == "other"


@needs_reference
def test_real_kollaps_files_load_without_errors_or_warnings() -> None:
    assert len(reference_files()) >= 7
    for path in reference_files():
        loaded = load(path)
        assert {finding.severity for finding in loaded.findings} <= {"note"}
        assert loaded.require().routing is Routing.HOPS


@needs_reference
def test_a_link_without_download_is_one_way() -> None:
    (ping,) = (path for path in reference_files() if path.name.startswith("ping"))
    loaded = load(ping)
    assert [(link.origin, link.dest) for link in loaded.require().links] == [
        ("n1", "b1"),
        ("b1", "n2"),
        ("n2", "b1"),
        ("b1", "n1"),
    ]
    assert [finding.code for finding in loaded.findings] == ["kollaps-one-way"] * 4


def test_sharing_in_xml_is_said_of_the_service() -> None:
    text = (
        '<experiment boot="k"><services><service name="a" image="i" replicas="3" share="true"/>'
        '<service name="b" image="i" replicas="2"/></services><links>'
        '<link origin="b" dest="a" latency="1" upload="1.5Mbps" download="2Mbps" drop="50%" network="n"/>'
        "</links></experiment>"
    )
    there, back = load_bytes(text.encode(), Form.XML, "t.xml").require().links
    assert (there.origin_shared, there.dest_shared, back.origin_shared, back.dest_shared) == (False, True, True, False)
    assert (there.properties.rate_bps, there.properties.loss) == (1.5e6, 0.5)


def xml_link(**attributes: str) -> Link:
    given = {"latency": "1", "upload": "1Mbps", "network": "n"} | attributes
    words = " ".join(f'{key}="{value}"' for key, value in given.items())
    text = (
        '<experiment boot="k"><services><service name="a" image="i"/>'
        '<service name="b" image="i" replicas="02"/></services>'
        f'<links><link origin="a" dest="b" {words}/></links></experiment>'
    )
    return load_bytes(text.encode(), Form.XML, "t.xml").require().links[0]


@pytest.mark.parametrize(
    ("text", "latency_ms"),
    [
        ("14", 14.0),
        ("1e1", 10.0),
        ("+5", 5.0),
        (" 5 ", 5.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("2s", 2000.0),
        ("0.00012345678901234567", 0.000123456789),
        ("-0", 0.0),
    ],
)
def test_numbers_in_xml_are_read_as_kollaps_reads_them(text: str, latency_ms: float) -> None:
    assert xml_link(latency=text).properties.latency_ms == latency_ms


def test_a_tiny_loss_as_programs_write_it() -> None:
    assert xml_link(drop="1e-05").properties.loss == 1e-05


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "1e999", "0x10", "1e1e1", "--5", "-1e1"])
def test_what_only_looks_like_a_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        xml_link(latency=text)


def test_the_places_of_settings_in_xml() -> None:
    text = (
        '<experiment boot="k">\n<config>\n  <x pool_period="abc"/>\n  <y max_age="0"/></config>\n'
        '<services><service name="a" image="i"/></services><links/>\n'
        '<dynamic><schedule origin="a" dest="q" time="1" action="join"/></dynamic></experiment>'
    )
    found = [
        (*each.where, each.message.split(":")[0]) for each in load_bytes(text.encode(), Form.XML, "t.xml").findings
    ]
    assert found == [(3, 19, "pool_period"), (4, 15, "max_age"), (6, 37, "dest")]


@pytest.mark.parametrize(
    ("name", "meant"), [("a\nb", "ab"), ("  ", "topology"), ("x" * 200, "x" * 100), ("net.v2", "net")]
)
def test_a_file_of_any_name_has_a_name_that_can_be_written(name: str, meant: str) -> None:
    assert load_bytes(b"services: {a: }", Form.YAML, name + ".yaml").require().name in (meant, name)


def test_many_services_are_not_taken_for_many_selectors() -> None:
    count = 6000
    services = "".join(f"  s{number}: {{}}\n" for number in range(count))
    links = "".join(f"  - {{from: s{number}, to: hub}}\n" for number in range(count))
    text = f"defaults: {{latency: 1ms, rate: 1Mbps}}\nservices:\n{services}bridges: [hub]\nlinks:\n{links}"
    assert len(yaml(text).links) == 2 * count


@pytest.mark.slow
def test_many_patterns_over_many_nodes_are_refused() -> None:
    links = "".join(f"  - {{from: 'a.*{number:03}', to: b, latency: 1ms, rate: 1Mbps}}\n" for number in range(300))
    loaded = load_bytes(f"services: {{a: {{replicas: 90000}}, b: }}\nlinks:\n{links}".encode(), Form.YAML, "t.yaml")
    assert "too-large" in {finding.code for finding in loaded.findings}
