"""The whole text for two small topologies. `TESTBED_WRITE_GOLDEN=1 pytest tests/manifests` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from testbed.manifests.kollaps.render import Orchestrator, experiment_uuid, render
from testbed.topologies.bundled import find_bundled
from tests.manifests.rendering import plan_of, rendered, topology_of
from tests.targets.judging import XML_EVENTS, YAML, changed

GOLDEN = Path(__file__).parent / "golden"
STAR = changed(
    YAML,
    ("b: {}", "b: {cpus: 0.5, command: [serve, --port=1]}"),
    ("  - {from: a, to", "  - {shared: from, from: a, to"),
)
"""A shared link, a device, a command."""
CASES = {"star": STAR, "events": XML_EVENTS.replace("<config>", "")}
PLAN = "results/r/plan.json"


@pytest.mark.parametrize("orchestrator", list(Orchestrator))
@pytest.mark.parametrize("name", CASES)
def test_the_files_are_the_golden_ones(name: str, orchestrator: Orchestrator) -> None:
    files = rendered(topology_of(CASES[name]), orchestrator).files
    assert set(files) - {"docker-stack.yml", "kubernetes.yaml"} == {"topology.xml", "README.txt", PLAN}
    for file, text in files.items():
        if file == PLAN:
            continue  # the plan has tests of its own
        path = GOLDEN / f"{name}-{orchestrator}-{file}"
        if os.environ.get("TESTBED_WRITE_GOLDEN"):
            path.write_text(text)
        assert path.read_text() == text


def test_the_same_plan_is_the_same_text_and_another_run_another_experiment() -> None:
    topology = topology_of(YAML)
    one, again, other = (
        render(plan_of(topology, run_id), Orchestrator.SWARM, folder="/f", topology=topology).files
        for run_id in ("one", "one", "other")
    )
    assert one == again
    assert experiment_uuid("one") in one["docker-stack.yml"]
    assert experiment_uuid("one") not in other["docker-stack.yml"]


def test_a_plan_alone_is_enough() -> None:
    topology = topology_of(YAML)
    plan = plan_of(topology)
    alone = render(plan, Orchestrator.SWARM, folder="/f").files
    assert alone == render(plan, Orchestrator.SWARM, folder="/f", topology=topology).files


def test_a_thousand_nodes() -> None:
    found = find_bundled("wan1024")
    assert found is not None
    manifest = rendered(topology_of(Path(found))).files
    swarm = yaml.safe_load(manifest["docker-stack.yml"])
    learners = [each for each in swarm["services"].values() if "entrypoint" in each]
    assert sum(each["deploy"]["replicas"] for each in learners) == 1024
    assert {each["environment"]["TESTBED_RUN"] for each in learners} == {"/results/r"}
    assert "10.1.0.0/20" in manifest["README.txt"], "a /24 has too few addresses"
