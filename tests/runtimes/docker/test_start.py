"""The start of containers whose sockets lie on volumes: what is known before the first one, and what has a bound."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import PreflightRefused
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.reachability import Unreached
from testbed.runtimes.docker import start as module
from testbed.runtimes.docker.containers import Container
from testbed.runtimes.docker.socket_places import Sockets
from testbed.runtimes.docker.start import ContainerStarter
from tests.manifests.compose.composing import plan_of, topology_of


class ContainerSet:
    """Starts all that it is told to; none of it ever ends."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, containers: list[Container], _done: object) -> dict[str, str]:
        self.started += [each.name for each in containers]
        return {each.name: each.name for each in containers}

    def is_running(self, _id: str) -> bool:
        return True


@pytest.fixture
def container_set() -> Any:
    return ContainerSet()


def starting(folder: Path, sockets: Sockets) -> ContainerStarter:
    return ContainerStarter(
        plan_of(topology_of("lan4"), "data.name=digits"),
        RunDirectory(folder),
        folder / "data",
        sockets,
        is_wanted=lambda: True,
        started=lambda _started, _of: None,
        met=lambda: None,
        say=lambda _: None,
    )


def test_making_sockets_on_volumes_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container_set: Any
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    now_s, looks = 0.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now_s, looks
        now_s, looks = now_s + seconds, looks + 1
        assert now_s < 600, "it waits without end"

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    engine: Any = None
    with pytest.raises(PreflightRefused, match="has not ended within 60 s"):
        starting(tmp_path, Sockets.VOLUME).start(engine, container_set)
    assert looks <= 60 / 0.2 + 1
    assert len(container_set.started) == 1


@pytest.mark.parametrize("sockets", [Sockets.VOLUME, Sockets.AUTO])
def test_an_engine_behind_tcp_is_refused_before_anything_is_on_volumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container_set: Any, sockets: Sockets
) -> None:
    def unreached(_start: ContainerStarter, _container_set: object) -> dict[str, str]:
        raise Unreached("sockets do not reach over")

    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setattr(ContainerStarter, "_start_in_folder", unreached)
    engine: Any = None
    with pytest.raises(PreflightRefused, match="need the Docker Engine's UNIX socket") as refused:
        starting(tmp_path, sockets).start(engine, container_set)
    assert "docker exec" not in refused.value.hint
    assert "run testbed on the machine that the Docker Engine runs on" in refused.value.hint
    assert ("--sockets folder" in refused.value.hint) is (sockets is Sockets.VOLUME)
    assert container_set.started == []
