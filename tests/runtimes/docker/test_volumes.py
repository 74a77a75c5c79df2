"""Volumes for sockets: who mounts which of them, whose they are, and that none of them stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.engines.privileges import User
from testbed.errors import CouldNotStart, ExitCode
from testbed.image.engine_client import connected
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.container_set import ContainerSet
from testbed.runtimes.docker.containers import LEARNER, RANK_LABEL, Container, containers_of, sockets_maker
from testbed.runtimes.docker.leftovers import refuse_if_there, strays
from testbed.runtimes.docker.socket_places import OnVolumes, Volume
from tests.image.fake_engine import FakeEngine
from tests.manifests.compose.composing import plan_of, topology_of

RUN = RunDirectory(Path("/r"))
ME = User(1000, 1000)


def made() -> tuple[Container, list[Container]]:
    """What makes the volumes, and all containers of lan4."""
    plan = plan_of(topology_of("lan4"), "data.name=digits")
    volumes = OnVolumes(plan.run_id, range(4))
    return sockets_maker(plan, RUN, ME, volumes), containers_of(plan, RUN, ME, Path("/d"), volumes)


def volumes_in(container: Container) -> dict[str, tuple[str, bool]]:
    """By where they are inside: the name, and whether they are only read."""
    found = [each for each in container.mounts if isinstance(each.outside, Volume)]
    return {str(each.inside): (each.outside.name, each.read_only) for each in found if isinstance(each.outside, Volume)}


def test_a_learner_sees_its_own_and_no_other() -> None:
    _, containers = made()
    own = []
    for each in containers:
        if each.part == LEARNER:
            seen = volumes_in(each)
            assert sorted(seen) == ["/testbed/slots", "/testbed/sockets"]
            name, read_only = seen["/testbed/sockets"]
            assert (name.rpartition("-")[2], read_only) == (f"r{each.labels[RANK_LABEL]}", False)
            assert seen["/testbed/slots"][1], "no process writes where all read"
            own.append(name)
    assert len(set(own)) == 4


def test_control_and_the_fabric_see_all_put_together() -> None:
    maker, containers = made()
    nodes = {f"/testbed/sockets/nodes/{rank}" for rank in range(4)}
    for each in (maker, *(each for each in containers if each.part != LEARNER)):
        assert set(volumes_in(each)) == {"/testbed/sockets", "/testbed/sockets/slots", *nodes}


def test_who_makes_them_may_do_nothing_else() -> None:
    maker, _ = made()
    assert (maker.user, maker.capabilities, maker.devices) == (User(0, 0), ("CHOWN",), ())
    assert all(isinstance(each.outside, Volume) for each in maker.mounts), "nothing of the host"


def test_whatever_has_such_a_name_is_not_taken() -> None:
    first, second = (set(map(str, volumes_in(made()[0]).values())) for _ in range(2))
    assert not first & second


def test_the_engine_labels_them_whichever_container_comes_first(engine: FakeEngine) -> None:
    engine.answers["/containers/create"] = (201, {"Id": "c"})
    engine.answers["/containers/c/start"] = (204, None)
    learner = made()[1][-1]
    with connected() as client:
        ContainerSet(client, "testbed:latest").start([learner])
    mounts = json.loads(engine.sent["/containers/create"])["HostConfig"]["Mounts"]
    volumes = [each for each in mounts if each["Type"] == "volume"]
    assert len(volumes) == 2
    for each in volumes:
        assert each["VolumeOptions"]["Labels"] == {"testbed.run": learner.labels["testbed.run"], "testbed.folder": "/r"}
        assert each["VolumeOptions"]["NoCopy"]


class Left:
    """An Engine that has volumes of the run in a folder, and nothing else; some are in use at first."""

    def __init__(self, engine: FakeEngine, folder: Path, *, in_use: int = 0) -> None:
        self.engine = engine
        self.names = ["testbed-r-1-slots", "testbed-r-1-r0"]
        self._labels = {"testbed.run": folder.name, "testbed.folder": str(folder)}
        self._in_use = in_use
        engine.answers["/containers/json"] = (200, [])
        engine.answers["/volumes"] = (200, self._found)

    def _found(self, query: dict[str, str]) -> dict[str, Any]:
        wanted = [each.partition("=") for each in json.loads(query["filters"])["label"]]
        for name in self.names:
            in_use = (409, {"message": "volume is in use"})
            self.engine.answers[f"/volumes/{name}"] = in_use if self._in_use else (200, self._gone(name))
        fits = all(self._labels.get(key) == value if equals else key in self._labels for key, equals, value in wanted)
        self._in_use = max(0, self._in_use - 1)
        return {"Volumes": [{"Name": name, "Labels": self._labels} for name in self.names] if fits else None}

    def _gone(self, name: str) -> Callable[[object], None]:
        return lambda _: self.names.remove(name)


@pytest.mark.parametrize("in_use", [0, 6])
def test_destroy_removes_those_of_a_run_that_has_nothing_else(engine: FakeEngine, tmp_path: Path, in_use: int) -> None:
    folder = (tmp_path / "results" / "r").resolve()
    left = Left(engine, folder, in_use=in_use)
    assert [each.path for each in strays()] == [folder]
    done = CliRunner().invoke(main, ["destroy", str(folder)])
    assert (done.exit_code, done.output) == (0, "r: removed what it had left\n")
    assert left.names == []
    assert CliRunner().invoke(main, ["destroy", str(folder)]).exit_code == ExitCode.USAGE, "there is no such run"


def test_no_other_run_may_have_that_folder_meanwhile(engine: FakeEngine, tmp_path: Path) -> None:
    Left(engine, tmp_path / "r")
    with connected() as client:
        refuse_if_there(client, tmp_path / "another" / "r")  # of the same name, of another folder
        with pytest.raises(CouldNotStart, match=r"there are volumes of a run in .*/r already"):
            refuse_if_there(client, tmp_path / "r")
