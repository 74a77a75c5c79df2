"""What Docker, Swarm and Kubernetes cannot do with a topology."""

from __future__ import annotations

from itertools import product

import pytest

from testbed.errors import Severity, has_errors
from testbed.targets import Target
from testbed.targets.containers import foreign_programs
from testbed.targets.host_names import MAX_NODE_LABEL, node_label
from testbed.topologies.model import Service, Topology
from tests.targets.judging import XML, YAML, changed, judged, judged_topology, only

MESH = """\
services: {a: {}, b: {}, c: {}}
links:
  - {from: a, to: b, latency: 1ms, rate: 10Mbps}
  - {from: b, to: c, latency: 1ms, rate: 10Mbps}
  - {from: a, to: c, latency: 1ms, rate: 10Mbps}
"""


def renamed(name: str) -> str:
    return changed(YAML, ("  b: {}", f"  {name}: {{}}"), ("to: b,", f"to: {name},"))


def codes(text: str, target: Target) -> dict[str, Severity]:
    """Of the target's own findings."""
    return {each.code: each.severity for each in judged(text, target) if each.code.startswith(f"{target}-")}


@pytest.mark.parametrize("target", [Target.SWARM, Target.KUBERNETES])
@pytest.mark.parametrize(
    ("name", "valid"), [("b-1", True), ("b_1", False), ("b.x", False), ("zürich", False), ("b c", False)]
)
def test_nodes_of_a_cluster_are_hosts(target: Target, name: str, valid: bool) -> None:
    found = only(judged(renamed(name), target), f"{target}-name")
    assert [(finding.severity, finding.where.line) for finding in found] == ([] if valid else [(Severity.ERROR, 4)])


@pytest.mark.parametrize("target", [Target.SWARM, Target.KUBERNETES])
def test_the_longest_name_leaves_room_for_the_run_and_the_replica(target: Target) -> None:
    longest = "b" * (MAX_NODE_LABEL - len("-0"))
    code = f"{target}-name-length"
    assert MAX_NODE_LABEL == 38
    assert not only(judged(renamed(longest), target), code)
    (finding,) = only(judged(renamed(longest + "b"), target), code)
    assert finding.severity is Severity.ERROR
    assert "shorten the name by 1" in finding.hint
    eleven = changed(renamed(longest), (f"{longest}: {{}}", f"{longest}: {{replicas: 11}}"))
    assert only(judged(eleven, target), code)


def test_kubernetes_takes_lower_case_only() -> None:
    assert codes(renamed("fastB"), Target.KUBERNETES)["kubernetes-upper-case"] is Severity.ERROR
    assert "kubernetes-upper-case" not in codes(renamed("fastb"), Target.KUBERNETES)
    assert not has_errors(judged(renamed("fastB"), Target.SWARM))


def test_labels_of_different_nodes_differ_even_when_one_service_is_named_like_a_node_of_another() -> None:
    labels = [node_label(name, i) for name, i in product(("a", "a-1", "a-1-0", "a-"), range(12))]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("target", "code", "most"),
    [(Target.SWARM, "swarm-endpoints", 250), (Target.KUBERNETES, "kubernetes-pods", 110)],
)
def test_more_nodes_than_fit_by_default_are_a_warning(target: Target, code: str, most: int) -> None:
    assert code not in codes(changed(YAML, ("replicas: 2", f"replicas: {most - 1}")), target)
    assert codes(changed(YAML, ("replicas: 2", f"replicas: {most}")), target)[code] is Severity.WARNING


def test_a_machine_more_is_needed_for_a_pod_too_many() -> None:
    (finding,) = only(judged(changed(YAML, ("replicas: 2", "replicas: 220")), Target.KUBERNETES), "kubernetes-pods")
    assert "at least 3 machines" in finding.hint
    (finding,) = only(judged(changed(YAML, ("replicas: 2", "replicas: 219")), Target.KUBERNETES), "kubernetes-pods")
    assert "at least 2 machines" in finding.hint


@pytest.mark.parametrize("target", [Target.SWARM, Target.KUBERNETES])
def test_what_shaping_at_the_sender_does_not_reproduce_is_told_once_and_only_where_there_is_some(
    target: Target,
) -> None:
    shared, background, queues = (f"{target}-{what}" for what in ("shared-links", "background", "queues"))
    assert not {shared, background, queues} & codes(MESH, target).keys()
    assert codes(YAML, target)[shared] is Severity.WARNING
    loaded = MESH.replace("rate: 10Mbps", "rate: 10Mbps, background: 1Mbps")
    assert codes(loaded, target) == {background: Severity.WARNING}
    queued = MESH.replace("rate: 10Mbps", "rate: 10Mbps, queue: 10ms")
    assert codes(queued, target) == {queues: Severity.WARNING}
    by_event = MESH + "events:\n  - {at: 1s, link: [a, b], queue: 64KiB}\n"
    assert codes(by_event, target) == {queues: Severity.WARNING}
    assert len(only(judged(loaded, target), background)) == 1
    assert not codes(loaded + "", Target.DOCKER)


def test_a_shared_link_is_named_with_how_many_send_over_it() -> None:
    (finding,) = only(judged(YAML, Target.SWARM), "swarm-shared-links")
    assert "from `x` to `a` (2 nodes send to `a.0`)" in finding.message


def test_nodes_that_share_nothing_do_not_hide_those_that_do() -> None:
    alone = "  z: {replicas: 20}\n  p: {}\n  q: {}\n"
    first = changed(YAML, ("  a: {replicas: 2}\n", alone + "  a: {replicas: 2}\n"))
    (finding,) = only(
        judged(first + "  - {from: p, to: q, latency: 1ms, rate: 10Mbps}\n", Target.SWARM), "swarm-shared-links"
    )
    assert "(2 nodes send to `a.0`)" in finding.message


def test_senders_without_a_way_to_each_other_share_nothing() -> None:
    one_way = """\
services: {a: {}, b: {}, c: {}}
bridges: [x]
links:
  - {from: a, to: x, latency: 1ms, rate: 10Mbps, one-way: true}
  - {from: x, to: b, latency: 1ms, rate: 10Mbps, one-way: true}
  - {from: x, to: c, latency: 1ms, rate: 10Mbps, one-way: true}
"""
    assert not only(judged(one_way, Target.SWARM), "swarm-shared-links")
    assert only(judged(one_way, Target.KOLLAPS), "kollaps-one-to-many")


@pytest.mark.parametrize(
    ("name", "valid"), [("b_1", True), ("b.x", True), ("fastB", True), ("zürich", False), ("b c", False)]
)
def test_names_of_containers(name: str, valid: bool) -> None:
    found = only(judged(renamed(name), Target.DOCKER), "docker-name")
    assert [(finding.severity, finding.where.line) for finding in found] == ([] if valid else [(Severity.ERROR, 4)])


def test_docker_has_an_address_for_every_node() -> None:
    most = Topology("t", (Service("a", replicas=131_070),), ())
    assert not only(judged_topology(most, Target.DOCKER), "docker-addresses")
    (finding,) = only(
        judged_topology(Topology("t", (Service("a", replicas=131_071),), ()), Target.DOCKER), "docker-addresses"
    )
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("target", [Target.SWARM, Target.KUBERNETES, Target.DOCKER])
def test_what_only_kollaps_does_otherwise_stays_a_note_elsewhere(target: Target) -> None:
    found = judged(XML.replace('upload="10Mbps" download="5Mbps"', 'upload="1.5Mbps"'), target)
    assert {each.severity for each in found if each.code.startswith("kollaps-")} == {Severity.NOTE}
    assert {"kollaps-rate", "kollaps-one-way"} <= {each.code for each in found}
    assert not has_errors(each for each in found if each.code not in ("docker-image", "docker-command"))


@pytest.mark.parametrize(
    ("service", "code"),
    [
        ("{image: postgres:16}", "docker-image"),
        ("{command: [--fast, '1']}", "docker-command"),
        ("{image: testbed-node:latest}", None),
        ("{image: testbed:latest}", None),
    ],
)
def test_what_containers_would_not_run_is_an_error_with_its_place(service: str, code: str | None) -> None:
    found = [
        (each.code, each.severity, each.where.line)
        for each in judged(MESH.replace("b: {}", f"b: {service}"), Target.DOCKER)
        if each.code.startswith("docker-")
    ]
    assert found == ([] if code is None else [(code, Severity.ERROR, 1)])


def test_an_image_that_the_run_has_may_be_named() -> None:
    topology = Topology("t", (Service("a", image="mine:2"),), ())
    assert [each.code for each in foreign_programs(topology)] == ["docker-image"]
    assert not list(foreign_programs(topology, "mine:2"))
