"""`testbed render --target compose`, and the file at the root of the repository."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.topologies.bundled import find_bundled
from tests.manifests.compose.composing import learners_in, star

ROOT = Path(__file__).parents[3]


pytestmark = pytest.mark.usefixtures("in_a_folder")


def render(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["render", *arguments, "--target", "compose"])


def services(folder: str) -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = yaml.safe_load(Path(folder, "docker-compose.yml").read_text())["services"]
    return read


def prepare(*arguments: str) -> list[str]:
    """The words that the run is prepared with."""
    done = render(*arguments, "-o", "out", "--force")
    assert done.exit_code == 0, done.output
    words: list[str] = services("out")["prepare"]["command"]
    return words


PLAN = ["prepare", "--plan", "/testbed/plan.json"]


def test_the_root_of_the_repository_has_what_render_writes() -> None:
    assert render("topologies/lan4.xml", "--data", "digits", "--run-id", "lan4", "-o", "out").exit_code == 0
    assert Path("out/docker-compose.yml").read_text() == (ROOT / "docker-compose.yml").read_text()
    assert "plan.json:/testbed/plan.json" not in (ROOT / "docker-compose.yml").read_text(), "it stands alone"


def test_the_folder_and_its_files() -> None:
    done = render("lan4", "--run-id", "mine")
    assert done.exit_code == 0, done.output
    names = ("plan.json", "docker-compose.yml", ".env", "README.txt")
    assert done.stdout.splitlines() == [f"mine-compose/{name}" for name in names]
    plan = json.loads(Path("mine-compose/plan.json").read_text())
    assert (plan["run_id"], plan["runtime"], plan["engine"]) == ("mine", "docker", "fabric")
    assert set(learners_in(services("mine-compose"))) == {f"node.{number}" for number in range(4)}
    assert "COMPOSE_PROJECT_NAME=testbed-mine\n" in Path("mine-compose/.env").read_text()
    assert Path("mine-compose/README.txt").read_text().startswith("mkdir -p results data; export TESTBED_UID=")


def test_a_bundled_topology_and_options_are_said_in_words() -> None:
    first = ["prepare", "--run-id", "r", "topologies/lan4.xml"]
    assert prepare("lan4", "--run-id", "r") == first
    options = ["--data", "digits", "--lr", "0.5", "--dynamic", "--set", "training.momentum=0.5"]
    assert prepare("topologies/lan4.xml", "--run-id", "r", *options) == [*first, *options]
    assert prepare("lan4", "--run-id", "r", "--set", "compute.factors={nodes: node.0, factor: 2}") == [
        *first,
        "--set",
        "compute.factors={nodes: node.0, factor: 2}",
    ]


def test_the_words_make_the_same_plan() -> None:
    options = ["--data", "digits", "--dynamic", "--degree", "2", "--set", "compute.factors={share: 0.5, factor: 2}"]
    words = prepare("topologies/lan4.xml", "--run-id", "r", *options)
    plan = Path("out/plan.json").read_text()
    assert render(*words[1:], "-o", "again").exit_code == 0
    assert Path("again/plan.json").read_text() == plan


def test_what_an_image_does_not_know_is_in_the_plan_beside_it() -> None:
    Path("mine.yaml").write_text(star({"a": {}, "b": {}, "c": {}}))
    assert prepare("mine.yaml") == PLAN
    Path("e.yaml").write_text("topology: topologies/lan4.xml\n")
    assert prepare("e.yaml") == PLAN
    Path("edges").write_text("0 1\n1 2\n2 3\n")
    assert prepare("lan4", "--set", "overlay.file=edges") == PLAN
    Path("mine.py").write_text("class Mine: pass\n")
    assert prepare("lan4", "--algorithm", "mine.py:Mine") == PLAN
    for section in ("algorithm", "sharing", "model"):
        assert prepare("lan4", "--set", f"{section}.name=package.module:Thing") == PLAN
    assert prepare("--plan", "out/plan.json", "--run-id", "again") == PLAN
    assert json.loads(Path("out/plan.json").read_text())["run_id"] == "again"


def test_a_file_with_the_name_of_a_bundled_one_is_not_that_one() -> None:
    Path("topologies").mkdir()
    bundled = find_bundled("lan4")
    assert bundled is not None
    Path("topologies/lan4.xml").write_bytes(bundled.read_bytes())
    assert prepare("topologies/lan4.xml")[-1] == "topologies/lan4.xml"
    Path("topologies/lan4.xml").write_bytes(bundled.read_bytes().replace(b'latency="0.5"', b'latency="5"'))
    assert prepare("topologies/lan4.xml") == PLAN


@pytest.mark.parametrize("option", ["--orchestrator=swarm", "--machines=1", "--path=/x"])
def test_options_about_clusters_are_refused(option: str) -> None:
    refused = render("lan4", option)
    assert refused.exit_code == 2
    assert option.partition("=")[0] in refused.stderr
    assert not list(Path().iterdir())


def test_what_is_said_goes_to_stderr() -> None:
    Path("mine.yaml").write_text(star({"a b": {}, "c": {}}))
    done = render("mine.yaml", "-o", "out")
    assert done.exit_code == 0
    assert "mine.yaml:2:3: note: 1 nodes have other names" in done.stderr
    assert "compose-name" not in render("mine.yaml", "-o", "out", "--quiet").stderr


def test_the_commands_of_the_documentation_work() -> None:
    Path("experiment.yaml").write_text("topology: topologies/lan4.xml\ndata: digits\n")
    page = (ROOT / "docs" / "compose.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("$ testbed render ")]
    assert len(lines) == 2
    for line in lines:
        done = CliRunner().invoke(main, shlex.split(line)[2:])
        assert done.exit_code == 0, (line, done.output)
