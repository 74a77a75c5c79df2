"""The whole text for four small runs. `TESTBED_WRITE_GOLDEN=1 pytest tests/manifests/compose` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.manifests.compose.render import render
from tests.manifests.compose.composing import hostile, plan_of, rendered, star, topology_of

GOLDEN = Path(__file__).parent / "golden"
SERVER = star({"hub": {"cpus": 2, "memory": "4GB"}, "phone": {"replicas": 2, "cpus": 0.5, "memory": "64MB"}})
CASES: dict[str, tuple[str, tuple[str, ...], list[str] | None]] = {
    "lan4": ("lan4", ("data.name=digits",), ["topologies/lan4.xml", "--data", "digits"]),
    "hostile": (hostile(), (), None),
    "churn16": ("churn16", ("data.name=digits", "network.idle_restart=false"), ["topologies/churn16.yaml"]),
    "server": (SERVER, ("algorithm.name=fedavg", "compute.mode=measured"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_files_are_the_golden_ones(name: str) -> None:
    source, settings, words = CASES[name]
    files = rendered(source, *settings, words=words).files
    assert list(files) == ["plan.json", "docker-compose.yml", ".env", "README.txt"]
    assert len(files["README.txt"].splitlines()) == 3
    for file, text in files.items():
        if file == "plan.json":
            continue  # the plan has tests of its own
        path = GOLDEN / f"{name}-{file.lstrip('.')}"
        if os.environ.get("TESTBED_WRITE_GOLDEN"):
            path.write_text(text)
        assert path.read_text() == text


def test_a_plan_alone_is_enough_and_the_same_plan_is_the_same_text() -> None:
    topology = topology_of("churn16")
    plan = plan_of(topology)
    assert render(plan).files == render(plan).files == render(plan, topology=topology).files
