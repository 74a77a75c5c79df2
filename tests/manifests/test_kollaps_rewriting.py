"""What Kollaps would get wrong is rewritten as something equal and said, or refused with its code."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
import yaml

from testbed.manifests.kollaps.render import Orchestrator
from testbed.network.graph import expand
from testbed.network.paths import compute_paths
from tests.manifests.kollaps_parsers import Refused, python_links, rust_links
from tests.manifests.rendering import refusals, rendered, said, topology_of, xml_of
from tests.targets.judging import YAML, changed

EVENTS = "events:\n"


def links(text: str) -> list[dict[str, str]]:
    return [dict(each.attrib) for each in ElementTree.fromstring(text).findall("links/link")]  # noqa: S314


def schedules(text: str) -> list[dict[str, str]]:
    return [dict(each.attrib) for each in ElementTree.fromstring(text).findall("dynamic/schedule")]  # noqa: S314


def test_what_needs_no_rewriting_is_left_alone() -> None:
    assert said(YAML) == set()
    assert python_links(xml_of(YAML)) == rust_links(xml_of(YAML))


def test_a_missing_dashboard_is_added() -> None:
    text = changed(YAML, ("  dashboard: {image: d, supervisor: true, port: 8088}\n", ""))
    assert said(text) == {"kollaps-no-supervisor"}
    manifest = yaml.safe_load(rendered(topology_of(text)).files["docker-stack.yml"])
    (dashboard,) = [each for name, each in manifest["services"].items() if name.startswith("dashboard-")]
    assert dashboard["ports"] == ["8088:8088"]
    assert dashboard["networks"] == ["KollapsNet", "outside"]


def test_a_dashboard_that_nobody_could_reach_gets_its_name_and_port() -> None:
    text = changed(YAML, ("dashboard: {image: d, supervisor: true, port: 8088}", "watch: {image: d, supervisor: true}"))
    assert said(text) == {"kollaps-supervisor"}
    assert '<service name="dashboard" image="d" supervisor="true" port="8088"/>' in xml_of(text)


def test_rates_with_fractions_become_whole_numbers_of_a_smaller_unit() -> None:
    text = changed(YAML, ("latency: 1ms, rate: 10Mbps}\n  - {from: x", "latency: 1ms, rate: 1.5Mbps}\n  - {from: x"))
    assert [each["upload"] for each in links(xml_of(text))] == ["1500Kbps", "10Mbps"]


@pytest.mark.parametrize(
    ("rate", "code"), [("1500bps", "kollaps-rate"), ("1.0005Mbps", "kollaps-rate"), ("unlimited", "kollaps-cannot-say")]
)
def test_rates_that_kollaps_has_no_number_for_are_refused(rate: str, code: str) -> None:
    text = changed(YAML, ("latency: 1ms, rate: 10Mbps}\n  - {from: x", f"latency: 1ms, rate: {rate}}}\n  - {{from: x"))
    assert {each.code for each in refusals(text)} == {code}


SHARED = """\
services:
  dashboard: {image: d, supervisor: true, port: 8088}
  a: {replicas: 3}
  b: {}
  c: {}
bridges: [x]
links:
  - {from: a, to: x, latency: 5ms, jitter: 1ms, loss: 1%, up: 10Mbps, down: 20Mbps, shared: from}
  - {from: x, to: b, latency: 1ms, rate: 100Mbps}
  - {from: x, to: c, latency: 1ms, rate: 100Mbps}
"""


def test_a_shared_link_becomes_a_bridge() -> None:
    topology = topology_of(SHARED)
    assert {each.code for each in rendered(topology).said} >= {"kollaps-share"}
    text = rendered(topology).files["topology.xml"]
    assert 'share="true"' not in text
    again = topology_of(text)
    ours, theirs = (compute_paths(expand(each), range(5)) for each in (topology, again))
    between = [(source, dest) for source in range(5) for dest in range(5) if source != dest and max(source, dest) > 2]
    for source, dest in between:
        assert theirs.latency_ms[source, dest] == pytest.approx(ours.latency_ms[source, dest], abs=1e-9)
        assert theirs.bandwidth_bps[source, dest] == ours.bandwidth_bps[source, dest]
        assert theirs.loss[source, dest] == pytest.approx(ours.loss[source, dest])
        assert theirs.hops[source, dest] == ours.hops[source, dest]
    assert theirs.latency_ms[0, 1] == pytest.approx(0.002), "with none at all, Kollaps gives up"
    shared = set(theirs.links(0, 3)) & set(theirs.links(1, 3))
    assert len(shared) == 2, "from the new bridge on it is one link for all replicas"


def test_the_access_link_is_shared_by_events_too() -> None:
    text = SHARED + EVENTS + "  - {at: 5s, link: [a, x], latency: 7ms, rate: 50Mbps}\n"
    document = xml_of(text)
    (change,) = [each for each in schedules(document) if "origin" in each]
    assert (change["origin"], change["dest"], change["latency"]) == ("a-to-x", "x", "6.999")
    legs = [each for each in links(document) if each["dest"] == "a-to-x"]
    assert [(each["origin"], each["upload"], each["download"]) for each in legs] == [("a", "50Mbps", "50Mbps")]


def test_a_path_without_latency_gets_the_least() -> None:
    text = YAML.replace("latency: 1ms", "latency: 0ms")
    assert said(text) == {"kollaps-zero-latency"}
    assert {each["latency"] for each in links(xml_of(text))} == {"0.001"}


def test_a_link_without_latency_stays_so_where_paths_have_some() -> None:
    text = changed(YAML, ("to: x, latency: 1ms", "to: x, latency: 2ms"), ("b, latency: 1ms", "b, latency: 0ms"))
    assert said(text) == set()
    assert [each["latency"] for each in links(xml_of(text))] == ["2", "0"]


def test_events_are_sorted_and_everybody_joins() -> None:
    text = (
        YAML
        + EVENTS
        + "  - {at: 9s, link: [x, b], latency: 3ms, rate: 10Mbps}\n"
        + "  - {at: 4s, link: [x, b], latency: 2ms, rate: 10Mbps}\n"
    )
    assert said(text) == {"kollaps-event-order", "kollaps-no-join"}
    found = schedules(xml_of(text))
    assert [(each.get("name"), each.get("amount"), each["time"], each.get("latency")) for each in found] == [
        ("a", "2", "0", None),
        ("b", None, "0", None),
        (None, None, "4", "2"),
        (None, None, "9", "3"),
    ]
    assert all("download" in each for each in found if "origin" in each)


def test_repetitions_and_ends_are_written_out() -> None:
    text = YAML + EVENTS + "  - {every: 10s, from: 5s, until: 20s, link: [x, b], state: down, for: 2s}\n"
    assert "kollaps-cannot-say" in said(text)
    found = [(each["time"], each["action"]) for each in schedules(xml_of(text)) if each.get("origin") == "x"]
    assert found == [("5", "leave"), ("7", "join"), ("15", "leave"), ("17", "join")]


def test_ends_that_undo_only_what_their_own_event_did_are_refused() -> None:
    text = (
        YAML
        + EVENTS
        + "  - {at: 5s, link: [x, b], state: down, for: 10s}\n"
        + "  - {at: 7s, link: [x, b], state: down, for: 2s}\n"
    )
    told = [each for each in refusals(text) if each.code == "kollaps-cannot-say"]
    assert [each.message.partition(" cannot say ")[2] for each in told] == [OVERLAPPING] * len(told) != []


OVERLAPPING = "how long something is down that goes down again by then (let downtimes of one thing end before the next)"


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        ("{every: 10s, from: 5s, until: 20s, node: '*', do: crash, count: 1, rejoin: 2s}", "which replicas an event"),
        ("{every: 10s, from: 5s, until: 20s, node: a, do: pause, for: 2s}", "`pause`"),
        ("{at: 5s, partition: [a, b], for: 2s}", "a partition"),
        ("{every: 1s, from: 5s, until: 20000s, link: [x, b], state: down, for: 100ms}", "39992 events (at most 10000"),
    ],
)
def test_what_is_refused_is_never_what_could_have_been_written_out(event: str, cause: str) -> None:
    told = [each.message for each in refusals(YAML + EVENTS + f"  - {event}\n") if each.code == "kollaps-cannot-say"]
    assert told
    for message in told:
        assert message.startswith(f"Kollaps' XML cannot say {cause}")


def test_a_crash_of_all_with_its_return_is_written_out() -> None:
    text = YAML + EVENTS + "  - {at: 5s, node: '*', do: crash, rejoin: 3s}\n"
    found = [(each["name"], each["time"], each["action"], each.get("amount")) for each in schedules(xml_of(text))]
    assert found == [
        ("a", "0", "join", "2"),
        ("b", "0", "join", None),
        ("a", "5", "crash", "2"),
        ("b", "5", "crash", None),
        ("a", "8", "join", "2"),
        ("b", "8", "join", None),
    ]


def test_pairs_of_one_way_links_become_two_way() -> None:
    text = changed(
        YAML,
        (
            "  - {from: a, to: x, latency: 1ms, rate: 10Mbps}\n",
            "  - {from: a, to: x, latency: 1ms, rate: 10Mbps, one-way: true}\n",
        ),
    )
    assert {each.code for each in refusals(text)} >= {"kollaps-one-way"}
    text += "  - {from: x, to: a, latency: 1ms, rate: 5Mbps, one-way: true}\n"
    assert said(text) == {"kollaps-one-way"}
    assert next((each["upload"], each["download"]) for each in links(xml_of(text))) == ("10Mbps", "5Mbps")
    different = text.replace("latency: 1ms, rate: 5Mbps", "latency: 2ms, rate: 5Mbps")
    assert {each.code for each in refusals(different)} == {"kollaps-one-way"}


def test_each_way_back_is_found_among_others() -> None:
    one_way = [("a", "x", 1), ("x", "a", 2), ("x", "a", 1), ("a", "x", 2)]
    written = "".join(
        f"  - {{from: {a}, to: {b}, latency: {latency}ms, rate: 10Mbps, one-way: true}}\n" for a, b, latency in one_way
    )
    text = changed(YAML, ("  - {from: a, to: x, latency: 1ms, rate: 10Mbps}\n", written))
    found = [(each["origin"], each["dest"], each["latency"]) for each in links(xml_of(text))]
    assert found == [("a", "x", "1"), ("x", "a", "2"), ("x", "b", "1")]
    assert python_links(xml_of(text)) == rust_links(xml_of(text))


TIES = """\
services:
  dashboard: {image: d, supervisor: true, port: 8088}
  a: {}
  b: {}
bridges: [x, y]
links:
  - {from: a, to: x, latency: 1ms, rate: 10Mbps}
  - {from: x, to: b, latency: 1ms, rate: 10Mbps}
  - {from: a, to: y, latency: 2ms, rate: 10Mbps}
  - {from: y, to: b, latency: 2ms, rate: 10Mbps}
"""


def test_ties_are_decided_by_latency_where_that_gives_our_paths() -> None:
    assert said(TIES) == {"kollaps-ties"}
    assert 'shortest_path="latency"' in xml_of(TIES)


def test_ties_that_nothing_decides_are_refused() -> None:
    assert {each.code for each in refusals(TIES.replace("2ms", "1ms"))} == {"kollaps-ties"}
    longer_and_faster = TIES.replace("[x, y]", "[x, y, p, q]") + (
        "  - {from: a, to: p, latency: 0.1ms, rate: 10Mbps}\n"
        "  - {from: p, to: q, latency: 0.1ms, rate: 10Mbps}\n"
        "  - {from: q, to: b, latency: 0.1ms, rate: 10Mbps}\n"
    )
    assert {each.code for each in refusals(longer_and_faster)} == {"kollaps-ties"}


def test_one_network_and_devices_as_limits() -> None:
    text = changed(
        YAML,
        ("a: {replicas: 2}", "a: {replicas: 2, cpus: 0.5, memory: 512MiB, speed: 0.5}"),
        ("to: b, latency: 1ms, rate: 10Mbps}", "to: b, latency: 1ms, rate: 10Mbps, network: other}"),
    )
    assert said(text) == {"kollaps-networks", "kollaps-cannot-say"}
    swarm = yaml.safe_load(rendered(topology_of(text)).files["docker-stack.yml"])
    (a,) = [each for name, each in swarm["services"].items() if name.startswith("a-")]
    assert a["deploy"]["resources"] == {"limits": {"cpus": "0.5", "memory": str(512 * 2**20)}}
    documents = yaml.safe_load_all(rendered(topology_of(text), Orchestrator.KUBERNETES).files["kubernetes.yaml"])
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "0.5", "memory": str(512 * 2**20)}}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("  b: {}", "  yes: {}", "kollaps-name-type"),
        ("  b: {}", "  b_1: {}", "kollaps-name"),
        ("  b: {}", "  b-logger: {}", "kollaps-reserved-name"),
        ("  b: {}", "  b-with-a-name-far-too-long: {}", "kollaps-name-length"),
        ("  b: {}", "  b: {command: ['two words']}", "kollaps-command-quoting"),
        ("  a: {replicas: 2}", "  a: {replicas: 33000}", "kollaps-too-many-links"),
    ],
)
def test_what_has_no_equal_is_refused_with_its_code(old: str, new: str, code: str) -> None:
    text = changed(YAML, (old, new))
    if new.startswith("  b") or "yes" in new:
        name = new.split(":")[0].strip()
        text = text.replace("to: b,", f"to: {name},")
    assert {each.code for each in refusals(text)} == {code}


def test_upper_case_names_are_refused_for_kubernetes_only() -> None:
    text = changed(YAML, ("  b: {}", "  B: {}"), ("to: b", "to: B"))
    assert refusals(text) == []
    assert {each.code for each in refusals(text, Orchestrator.KUBERNETES)} == {"kollaps-upper-case"}


def test_the_models_of_the_parsers_refuse_what_kollaps_refuses() -> None:
    xml = xml_of(YAML)
    for wrong in (
        xml.replace("10Mbps", "1.5Mbps"),
        xml.replace('replicas="2"', 'replicas="2" share="true"'),
        xml.replace('name="b"', 'name="b_1"').replace('dest="b"', 'dest="b_1"'),
    ):
        with pytest.raises(Refused):
            python_links(wrong)
    with pytest.raises(Refused):
        rust_links("<!-- first -->" + xml.partition("?>")[2])
