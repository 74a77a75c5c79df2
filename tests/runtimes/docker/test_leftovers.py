"""`destroy`, where the containers of a run are not ours: nothing of it is touched while it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.errors import ExitCode
from testbed.plan.files import write_plan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.containers.container_paths import sockets_of
from tests.image.fake_engine import FakeEngine
from tests.manifests.compose.composing import plan_of, topology_of


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Of containers, with what such a run has while it goes on."""
    made = create_run(tmp_path / "results", "r")
    write_plan(made, plan_of(topology_of("lan4"), "data.name=digits"))
    sockets_of(made).mkdir(parents=True)
    return made


def container(source: Path | str | None, state: str = "running", **labels: str) -> dict[str, Any]:
    mount = {"Type": "bind", "Destination": "/testbed/sockets"}
    mounts = [{"Type": "tmpfs"}, mount if source is None else {**mount, "Source": str(source)}]
    return {"Id": "c", "State": state, "Labels": {"testbed.run": "r", **labels}, "Mounts": mounts}


def only(engine: FakeEngine, made: dict[str, Any]) -> None:
    """It is the one container that there is."""

    def found(query: dict[str, str]) -> list[dict[str, Any]]:
        labels: dict[str, str] = made["Labels"]
        wanted = [each.partition("=") for each in json.loads(query["filters"]).get("label", [])]
        fits = (labels.get(key) == value if equals else key in labels for key, equals, value in wanted)
        return [made] if all(fits) else []

    engine.answers["/containers/json"] = (200, found)
    engine.answers["/containers/c"] = (200, {})


def destroy(run: RunDirectory, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["destroy", *(words or ("r",)), "--results", str(run.path.parent)])
    return done.exit_code, done.output


@pytest.mark.parametrize("where", ["r/runtime/sockets/nodes/0", "r", "."])
@pytest.mark.parametrize("words", [("r",), ("--all",)])
def test_a_run_that_compose_has_started_goes_on(
    engine: FakeEngine, run: RunDirectory, where: str, words: tuple[str, ...]
) -> None:
    only(engine, container(run.path.parent / where))
    code, said = destroy(run, *words)
    assert code == ExitCode.REFUSED, said
    assert "started by Compose" in said
    assert "docker compose down" in said
    assert sockets_of(run).is_dir()
    assert "/containers/c" not in engine.asked


def test_before_it_has_any_files(engine: FakeEngine, run: RunDirectory) -> None:
    sockets_of(run).rmdir()
    only(engine, container(run.path.parent))
    assert destroy(run)[0] == ExitCode.REFUSED


@pytest.mark.slow
def test_one_that_is_over_or_another_of_that_name_or_nobodys_is_in_nobodys_way(
    engine: FakeEngine, run: RunDirectory, tmp_path: Path
) -> None:
    for other in (
        container(run.path, "exited"),
        container(tmp_path / "elsewhere" / "r"),
        container(run.path, **{"testbed.folder": str(tmp_path / "elsewhere" / "r")}),
        container(None),
    ):
        sockets_of(run).mkdir(exist_ok=True)
        only(engine, other)
        code, said = destroy(run)
        assert (code, said) == (0, "r: removed what it had left\n")
        assert not sockets_of(run).exists()
