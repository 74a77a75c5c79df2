"""Our manifests against those that Kollaps' own generator wrote, and our XML as both of its parsers read it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.manifests.kollaps.render import Orchestrator
from testbed.network.graph import expand
from testbed.topologies.bundled import BUNDLED, find_bundled
from testbed.topologies.model import Topology
from tests.manifests.kollaps_parsers import Directed, python_links, rust_links
from tests.manifests.rendering import refusals, rendered, topology_of
from tests.reference import REFERENCE, needs_reference, reference_files

OURS = {"TESTBED_RUN", "TESTBED_SERVICE", "TESTBED_REPLICAS"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FILES = reference_files()
CANNOT = {"churn16"}
"""What a partition and pauses in it keep from Kollaps."""
CAN = [found for each in BUNDLED if each.name not in CANNOT and (found := find_bundled(each.name)) is not None]


def without_ours(container: dict[str, Any]) -> dict[str, Any]:
    """A service of Swarm or a container of Kubernetes without what learners add, which must be there."""
    rest = {key: value for key, value in container.items() if key not in ("volumes", "volumeMounts")}
    if "environment" in rest:
        assert set(rest["environment"]) >= OURS
        rest["environment"] = {key: value for key, value in rest["environment"].items() if key not in OURS}
    if "env" in rest:
        assert {each["name"] for each in rest["env"]} >= OURS
        rest["env"] = [each for each in rest["env"] if each["name"] not in OURS]
    return rest


@needs_reference
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_swarm_manifest_is_the_one_of_kollaps(path: Path) -> None:
    ours = yaml.load(rendered(topology_of(path)).files["docker-stack.yml"], Loader=LOADER)  # noqa: S506
    theirs = yaml.load((REFERENCE / "swarm" / f"{path.stem}.yaml").read_text(), Loader=LOADER)  # noqa: S506
    assert list(ours["services"]) == list(theirs["services"])
    for name, service in ours["services"].items():
        if "entrypoint" in service:
            assert [each["target"] for each in service["volumes"]] == ["/results"]
            ours["services"][name] = without_ours(service)
    bootstrapper = theirs["services"]["bootstrapper"]["volumes"]
    place = bootstrapper.index(f"/experiment/{path.name}:/topology.xml")
    bootstrapper[place] = "/experiment/topology.xml:/topology.xml"
    assert ours == theirs


@needs_reference
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_kubernetes_manifest_is_the_one_of_kollaps(path: Path) -> None:
    topology = topology_of(path)
    if any(service.name != service.name.lower() for service in topology.services):
        refused = refusals(path, Orchestrator.KUBERNETES)
        assert {each.code for each in refused} == {"kollaps-upper-case"}
        assert "kollaps-upper-case" not in {each.code for each in rendered(topology).said}
        return
    text = rendered(topology, Orchestrator.KUBERNETES).files["kubernetes.yaml"]
    ours = list(yaml.load_all(text, Loader=LOADER))
    theirs = list(yaml.load_all((REFERENCE / "kubernetes" / path.with_suffix(".yaml").name).read_text(), Loader=LOADER))
    for document in ours:
        spec = document.get("spec", {})
        spec = spec.get("template", {}).get("spec", spec)
        if any("command" in each for each in spec.get("containers", [])):
            assert [each["mountPath"] for each in spec["containers"][0]["volumeMounts"]] == ["/results"]
            assert [each["name"] for each in spec.pop("volumes")] == ["results"]
            spec["containers"] = [without_ours(each) for each in spec["containers"]]
    for documents in (ours, theirs):
        assert set(documents[-1].pop("data")) == {"topology.xml"}
    assert ours == theirs


@needs_reference
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_both_parsers_read_the_links_of_the_reference_topologies(path: Path) -> None:
    assert_links(topology_of(path))


@pytest.mark.parametrize("path", CAN, ids=lambda path: Path(path).stem)
def test_both_parsers_read_the_links_of_the_bundled_topologies(path: Path) -> None:
    assert_links(topology_of(Path(path)))


def assert_links(topology: Topology) -> None:
    xml = rendered(topology).files["topology.xml"]
    expected = model_links(topology)
    assert expected
    assert python_links(xml) == expected
    assert rust_links(xml) == expected


def model_links(topology: Topology) -> Counter[Directed]:
    network = expand(topology)
    return Counter(
        (
            network.names[network.origin[at]],
            network.names[network.dest[at]],
            float(network.latency_ms[at]),
            float(network.jitter_ms[at]),
            float(network.loss[at]),
            float(network.rate_bps[at]),
        )
        for at in range(network.link_count)
        if network.up[at]
    )


@needs_reference
def test_the_models_of_the_parsers_disagree_where_kollaps_own_do() -> None:
    text = (REFERENCE / "xml" / "ping__topology.xml").read_text()
    assert sum(python_links(text).values()) == 8
    assert sum(rust_links(text).values()) == 4
