"""What containers may do and see: exactly that, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.engines.namespace import TcpSettings
from testbed.plan.tcp import settings_of
from tests.manifests.compose.composing import PARTS, learners_in, mounts, rendered, services_of
from tests.manifests.compose.test_compose_golden import CASES

OF_A_LEARNER = {
    *("image", "network_mode", "read_only", "tmpfs", "logging", "cap_drop", "security_opt", "stop_grace_period"),
    *("command", "user", "cap_add", "devices", "environment", "sysctls", "extra_hosts"),
    *("pids_limit", "cpu_shares", "mem_limit", "cpus"),
    *("restart", "depends_on", "hostname", "labels", "volumes"),
}
DONE, STARTED = {"condition": "service_completed_successfully"}, {"condition": "service_started"}

FIRST = {"prepare": {}, "fabric": {"prepare": DONE}, "control": {"prepare": DONE, "fabric": STARTED}}
"""What Compose starts before a part, and stops after it: without the fabric, control takes the run for failed."""


@pytest.fixture(params=sorted(CASES))
def services(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    source, settings, words = CASES[request.param]
    return services_of(rendered(source, *settings, words=words))


def test_all_containers_are_shut_in(services: dict[str, dict[str, Any]]) -> None:
    for key, service in services.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["tmpfs"] == ["/tmp:mode=1777,size=64m"]  # noqa: S108 - a mount of its own
        assert service["logging"] == {"driver": "json-file", "options": {"max-size": "16m"}}
        assert service["image"] == "testbed:latest"
        assert 0 < service["pids_limit"] <= 256
        assert service["labels"]["testbed.run"] == "r"
        assert service["labels"]["testbed.part"] == (key if key in PARTS else "learner")
        if key != "prepare":
            assert service["network_mode"] == "none"


def test_the_parts_have_no_privileges(services: dict[str, dict[str, Any]]) -> None:
    for part in PARTS:
        service = services[part]
        assert service["user"] == "1000:1000"
        assert service["restart"] == "no"
        assert service["healthcheck"] == {"disable": True}
        assert service["command"][0] == part
        assert not {"cap_add", "devices", "privileged", "sysctls", "ipc", "pid", "userns_mode"} & set(service)
        assert service.get("depends_on", {}) == FIRST[part]


def test_learners_may_make_their_network_and_become_somebody_else(services: dict[str, dict[str, Any]]) -> None:
    for service in learners_in(services).values():
        assert set(service) | {"cpus"} == OF_A_LEARNER
        assert service["command"] == ["learner"]
        assert service["user"] == "0:0"
        assert service["cap_add"] == ["NET_ADMIN", "SETGID", "SETUID"]
        assert service["devices"] == ["/dev/net/tun:/dev/net/tun"]
        assert service["environment"] == {"TESTBED_UID": "1000", "TESTBED_GID": "1000"}
        assert service["depends_on"] == FIRST["control"], "else all of them have left when control is stopped"


def test_what_carries_packets_goes_before_what_trains(services: dict[str, dict[str, Any]]) -> None:
    learners = {service["cpu_shares"] for service in learners_in(services).values()}
    others = {services[part]["cpu_shares"] for part in PARTS if part != "fabric"}
    assert max(learners) * 100 < services["fabric"]["cpu_shares"]
    assert max(learners) < min(others), "control must be heard"
    assert max(others) <= 4 * min(learners), "and it also tries averages, which can wait"


@pytest.mark.parametrize("name", CASES)
def test_a_learner_mounts_its_own_and_nothing_else(name: str) -> None:
    source, settings, words = CASES[name]
    services = services_of(rendered(source, *settings, words=words), TESTBED_RESULTS="/results", TESTBED_DATA="/cache")
    data = [] if "data.name=digits" in settings else [("/cache", "/testbed/data", "ro")]
    for service in learners_in(services).values():
        node, rank = service["labels"]["testbed.node"], service["labels"]["testbed.rank"]
        folder = f"nodes/{node}" if not set(node) & set("$:{}") else f"runtime/nodes/{rank}"
        assert mounts(service) == [
            (f"/results/r/runtime/sockets/nodes/{rank}", "/testbed/sockets"),
            ("/results/r/runtime/sockets/slots", "/testbed/slots", "ro"),
            (f"/results/r/{folder}", "/testbed/node"),
            (f"/results/r/{folder}/plan.json", "/testbed/node/plan.json", "ro"),
            *data,
        ]
    plan = [] if words else [("./plan.json", "/testbed/plan.json", "ro")]
    cache = [("/cache", "/testbed/data")] if data else []
    assert mounts(services["prepare"]) == [("/results", "/testbed/results"), *cache, *plan]
    assert mounts(services["control"]) == [
        ("/results/r", "/testbed/run"),
        ("/results/r/runtime/sockets", "/testbed/sockets"),
        *data,
    ]
    assert mounts(services["fabric"]) == [
        ("/results/r/runtime/sockets", "/testbed/sockets"),
        ("/results/r/engine", "/testbed/run/engine"),
        ("/results/r/runtime/fabric", "/testbed/run/runtime/fabric", "ro"),
    ]


def test_only_what_may_have_to_be_fetched_opens_a_network_and_only_before_the_run() -> None:
    for data, network in (("digits", "none"), ("synthetic", "none"), ("fashion-mnist", "bridge")):
        services = services_of(rendered("lan4", f"data.name={data}"))
        assert services["prepare"]["network_mode"] == network
        assert {service["network_mode"] for key, service in services.items() if key != "prepare"} == {"none"}


def test_the_user_the_image_and_the_folders_are_chosen_from_outside() -> None:
    environment = {"TESTBED_UID": "5", "TESTBED_GID": "6", "TESTBED_IMAGE": "mine:1", "TESTBED_RESULTS": "/x"}
    services = services_of(rendered("lan4"), **environment)
    assert {services[part]["user"] for part in PARTS} == {"5:6"}
    assert {service["image"] for service in services.values()} == {"mine:1"}
    for service in learners_in(services).values():
        assert service["environment"] == {"TESTBED_UID": "5", "TESTBED_GID": "6"}
        assert service["sysctls"]["net.ipv4.ping_group_range"] == "6 6"
        assert mounts(service)[0][0].startswith("/x/r/")


@pytest.mark.parametrize("restart", [True, False])
def test_learners_have_the_kernel_settings_of_every_other_runtime(restart: bool) -> None:
    services = services_of(rendered("lan4", f"network.idle_restart={str(restart).lower()}"), TESTBED_GID="6")
    wanted = {f"net.ipv4.{key}": value for key, value in settings_of(TcpSettings(idle_restart=restart), 6).items()}
    for service in learners_in(services).values():
        assert service["sysctls"] == wanted
