"""What an Engine is asked for, when a container is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.engines.privileges import User
from testbed.image.engine_client import connected
from testbed.runtimes.docker.container_set import ContainerSet
from testbed.runtimes.docker.containers import Container
from tests.image.fake_engine import fake_engine
from tests.manifests.compose.composing import rendered, services_of


def test_a_container_may_write_as_much_as_compose_lets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    with fake_engine(tmp_path / "e") as server:
        server.answers["/containers/create"] = (201, {"Id": "c"})
        server.answers["/containers/c/start"] = (204, None)
        with connected() as engine:
            container_set = ContainerSet(engine, "testbed:latest")
            container_set.start([Container("n", "control", User(1, 1), (), {}, pids=1, shares=1)])
        host = json.loads(server.sent["/containers/create"])["HostConfig"]
    service = services_of(rendered("lan4"))["control"]
    assert [":".join(each) for each in host["Tmpfs"].items()] == service["tmpfs"]
    assert host["LogConfig"] == {"Type": service["logging"]["driver"], "Config": service["logging"]["options"]}
