"""What is left of a run goes, however long that takes; and what does not go is told of. In a time of its own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import PreflightRefused
from testbed.plan.files import write_plan
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import outcome_file
from testbed.runtimes.docker import leftovers
from testbed.runtimes.docker import run as module
from testbed.runtimes.docker.container_set import ContainerSet
from testbed.runtimes.docker.run import DockerRun
from testbed.runtimes.docker.start import ContainerStarter
from tests.manifests.compose.composing import plan_of, topology_of

FOLDER = Path("/r")


class Engine:
    """Containers and the volumes that each has: how long it takes to remove one, and how many go at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, *, takes_s: float, go: int | None = None) -> None:
        self.now_s = 0.0
        self.containers = [f"c{number}" for number in range(count)]
        self.volumes = [f"v{number}" for number in range(count)]
        self._gone_s: dict[str, float] = {}
        self._takes_s = takes_s
        self._go = count if go is None else go
        clock = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self._sleep)
        monkeypatch.setattr(leftovers, "time", clock)
        monkeypatch.setattr(leftovers, "of_run", lambda _engine, _folder: list(self.containers))
        monkeypatch.setattr(leftovers, "volumes_of", lambda _engine, _folder: list(self.volumes))
        monkeypatch.setattr(leftovers, "remove", self._remove)
        monkeypatch.setattr(leftovers, "remove_volumes", self._remove_volumes)

    def remove_all(self) -> None:
        engine: Any = None
        leftovers.remove_all_of(engine, FOLDER)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _remove(self, _engine: object, ids: list[str]) -> None:
        for number, each in enumerate(ids):
            self.now_s += self._takes_s
            if number < self._go:
                self.containers.remove(each)
                self._gone_s[f"v{each[1:]}"] = self.now_s

    def _remove_volumes(self, _engine: object, names: list[str]) -> None:
        for each in names:
            if self.now_s - self._gone_s.get(each, self.now_s) > 0.3:
                self.volumes.remove(each)


@pytest.mark.parametrize(("count", "takes_s"), [(1, 0.1), (1, 60.0), (200, 0.2), (200, 2.0)])
def test_however_long_it_takes(monkeypatch: pytest.MonkeyPatch, count: int, takes_s: float) -> None:
    engine = Engine(monkeypatch, count, takes_s=takes_s)
    engine.remove_all()
    assert (engine.containers, engine.volumes) == ([], [])


def test_as_long_as_some_go_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, 20, takes_s=0.5, go=1)
    engine.remove_all()
    assert (engine.containers, engine.volumes) == ([], [])


@pytest.mark.parametrize("takes_s", [0.1, 6.0])
def test_what_does_not_go_is_told_of(monkeypatch: pytest.MonkeyPatch, takes_s: float) -> None:
    engine = Engine(monkeypatch, 2, takes_s=takes_s, go=0)
    with pytest.raises(leftovers.NotRemoved, match="2 containers and 2 volumes of the run in /r could not be removed"):
        engine.remove_all()
    assert 10 <= engine.now_s < 60


def test_nothing_at_all_is_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, 0, takes_s=0.0)
    engine.remove_all()
    assert engine.now_s == 0


@pytest.mark.parametrize("reason", [PreflightRefused("no such thing"), KeyboardInterrupt(), None])
def test_what_stays_hides_no_other_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: BaseException | None
) -> None:
    def start(_start: ContainerStarter, _engine: object, _container_set: object) -> dict[str, str]:
        if reason is not None:
            raise reason
        return {"r-fabric": "f", "r-control": "c"}

    def stays(_engine: object, _folder: Path) -> None:
        raise leftovers.NotRemoved("3 volumes could not be removed")

    monkeypatch.setattr(module, "connected", lambda: nullcontext(SimpleNamespace(api=None)))
    monkeypatch.setattr(module, "remove_all_of", stays)
    monkeypatch.setattr(module, "name_of", lambda _directory, _run, _part: "r-fabric")
    monkeypatch.setattr(ContainerStarter, "start", start)
    for name in ("_follow", "_all_ended", "_record"):
        monkeypatch.setattr(DockerRun, name, lambda *_arguments, **_options: [])
    monkeypatch.setattr(ContainerSet, "pid", lambda _container_set, _id: 1)
    plan = plan_of(topology_of("lan4"), "data.name=digits")
    write_plan(RunDirectory(tmp_path), plan)
    (tmp_path / "runtime").mkdir(exist_ok=True)
    said: list[str] = []
    run = DockerRun(plan, RunDirectory(tmp_path), image="i", data=tmp_path, say=said.append)
    with pytest.raises(leftovers.NotRemoved if reason is None else type(reason)):
        run.run()
    assert any("3 volumes could not be removed" in each for each in said) is (reason is not None)


def test_an_outcome_that_control_wrote_before_a_second_interruption_goes_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(topology_of("lan4"), "data.name=digits")
    write_plan(RunDirectory(tmp_path), plan)
    (tmp_path / "runtime").mkdir(exist_ok=True)

    def interrupted(_run: DockerRun, *, leave: bool) -> None:
        assert not leave
        outcome_file(RunDirectory(tmp_path)).write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(DockerRun, "_until_ended", interrupted)
    run = DockerRun(plan, RunDirectory(tmp_path), image="i", data=tmp_path, say=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert not outcome_file(RunDirectory(tmp_path)).exists()
