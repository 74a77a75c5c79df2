"""What the Engine is asked for and what Compose is told are the same containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.engines.privileges import User
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.containers import LEARNER, Container, containers_of
from tests.manifests.compose.composing import plan_of, rendered, services_of, topology_of

NAMES = ("lan4", "churn16")
PARTS = ("fabric", "control")
_MIB = 1 << 20


@pytest.fixture(params=NAMES)
def both(request: pytest.FixtureRequest) -> list[tuple[Container, dict[str, Any]]]:
    """Every container beside its service, by name of its node."""
    name = request.param
    services = services_of(rendered(name, "data.name=digits"))
    plan = plan_of(topology_of(name), "data.name=digits")
    found = containers_of(plan, RunDirectory(Path("/r")), User(1000, 1000), Path("/d"))
    return [(each, services[each.labels.get("testbed.node", each.part)]) for each in found]


def test_each_may_use_as_much(both: list[tuple[Container, dict[str, Any]]]) -> None:
    for container, service in both:
        assert container.pids == service["pids_limit"]
        assert container.shares == service["cpu_shares"]
        if container.part == LEARNER:
            assert f"{(container.memory_bytes or 0) // _MIB}m" == service["mem_limit"]
            assert container.processors == service.get("cpus")
            assert (f"on-failure:{container.restarts}" if container.restarts else "no") == service["restart"]


def test_each_may_do_as_much(both: list[tuple[Container, dict[str, Any]]]) -> None:
    for container, service in both:
        assert sorted(container.capabilities) == sorted(service.get("cap_add", []))
        assert [f"{device}:{device}" for device in container.devices] == service.get("devices", [])
        inside = {str(mount.inside): mount.read_only for mount in container.mounts}
        told = dict(_mount(each) for each in service["volumes"])
        assert {path: told[path] for path in inside if path in told} == {path: inside[path] for path in told}


def test_the_kernel_is_told_the_same(both: list[tuple[Container, dict[str, Any]]]) -> None:
    for container, service in both:
        if container.part == LEARNER:
            assert container.sysctls == service["sysctls"]


def _mount(words: str) -> tuple[str, bool]:
    """Of `outside:inside[:ro]`, where outside may have variables with colons: where it is, and whether only to read."""
    read_only = words.endswith(":ro")
    return words.removesuffix(":ro").rpartition(":")[2], read_only
