"""`testbed render`: files in a folder, findings on stderr, exit codes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

import testbed.manifests
from testbed.cli.main import main
from tests.targets.judging import YAML

pytestmark = pytest.mark.usefixtures("in_a_folder")


def render(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["render", *arguments, "--target", "kollaps"])


def test_the_folder_is_named_after_the_run_and_the_paths_are_printed(tmp_path: Path) -> None:
    done = render("lan4", "--run-id", "mine")
    assert done.exit_code == 0, done.output
    folder = Path("mine-kollaps")
    assert done.stdout.splitlines() == [
        str(folder / name) for name in ("topology.xml", "docker-stack.yml", "results/mine/plan.json", "README.txt")
    ]
    swarm = yaml.safe_load((folder / "docker-stack.yml").read_text())
    assert f"{tmp_path}/mine-kollaps/topology.xml:/topology.xml" in swarm["services"]["bootstrapper"]["volumes"]
    assert json.loads((folder / "results/mine/plan.json").read_text())["runtime"] == "kollaps"
    assert "kollaps-images" in done.stderr


def test_without_a_name_it_is_that_of_topology_and_algorithm() -> None:
    assert render("lan4", "--algorithm", "epidemic").exit_code == 0
    assert Path("lan4-epidemic-kollaps/topology.xml").is_file()


def test_kubernetes_machines_and_path() -> None:
    done = render("lan4", "--orchestrator", "kubernetes", "-o", "out", "--machines", "3", "--path", "/shared/lan4")
    assert done.exit_code == 0, done.output
    documents = list(yaml.safe_load_all(Path("out/kubernetes.yaml").read_text()))
    (bootstrapper,) = [each for each in documents if each["kind"] == "DaemonSet"]
    (container,) = bootstrapper["spec"]["template"]["spec"]["containers"]
    assert {"name": "NUMBER_OF_GODS", "value": "3"} in container["env"]
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["volumes"][0]["hostPath"] == {"path": "/shared/lan4/results"}
    assert documents[-1]["data"]["topology.xml"] == Path("out/topology.xml").read_text()
    assert render("lan4", "--path", "relative").exit_code == 2


def test_files_of_others_are_not_written_over() -> None:
    Path("out").mkdir()
    Path("out/topology.xml").write_text("mine")
    refused = render("lan4", "-o", "out")
    assert refused.exit_code == 2
    assert "out/topology.xml" in refused.stderr
    assert [path.name for path in Path("out").iterdir()] == ["topology.xml"], "all or nothing"
    assert Path("out/topology.xml").read_text() == "mine"
    assert render("lan4", "-o", "out", "--force").exit_code == 0
    assert Path("out/topology.xml").read_text() != "mine"


def test_its_own_files_are_until_somebody_changes_them() -> None:
    for orchestrator in ("swarm", "kubernetes", "swarm"):
        assert render("lan4", "-o", "out", "--orchestrator", orchestrator).exit_code == 0
    with Path("out/docker-stack.yml").open("a") as file:
        file.write("# edited\n")
    assert render("lan4", "-o", "out", "--orchestrator", "kubernetes").exit_code == 0
    refused = render("lan4", "-o", "out")
    assert refused.exit_code == 2
    assert Path("out/docker-stack.yml").read_text().endswith("# edited\n")


def test_a_topology_that_kollaps_cannot_run_is_refused_and_nothing_written() -> None:
    refused = render("churn16")
    assert refused.exit_code == 3
    told = [line for line in refused.stderr.splitlines() if ": error: " in line]
    assert [line.partition("Kollaps' XML cannot say ")[::2] for line in told] == [
        ("churn16:11:5: error: ", "which replicas an event is for (kollaps-cannot-say)"),
        ("churn16:12:5: error: ", "`pause` (kollaps-cannot-say)"),
        ("churn16:13:5: error: ", "a partition (kollaps-cannot-say)"),
        ("churn16:14:5: error: ", "which replicas an event is for (kollaps-cannot-say)"),
    ], "repetitions and ends are written out: they are never the reason"
    assert refused.stdout == ""
    assert not list(Path().iterdir())


def test_upper_case_names_end_with_3_for_kubernetes() -> None:
    Path("t.yaml").write_text(YAML.replace("  b: {}", "  B: {}").replace("to: b", "to: B"))
    assert render("t.yaml", "-o", "swarm").exit_code == 0
    refused = render("t.yaml", "-o", "kubernetes", "--orchestrator", "kubernetes")
    assert refused.exit_code == 3
    assert "t.yaml:4:3: error: `B`" in refused.stderr
    assert "(kollaps-upper-case)" in refused.stderr


def test_a_plan_can_be_rendered() -> None:
    assert render("lan4", "--run-id", "first", "-o", "one").exit_code == 0
    plan = "one/results/first/plan.json"
    assert render("--plan", plan, "-o", "two", "--path", str(Path("one").absolute())).exit_code == 0
    for name in ("topology.xml", "docker-stack.yml", "results/first/plan.json"):
        assert Path("two", name).read_text() == Path("one", name).read_text()
    assert render("lan4", "--plan", plan).exit_code == 2


def test_an_experiment_can_be_rendered() -> None:
    Path("e.yaml").write_text("topology: t.yaml\nstop: {rounds: 3}\n")
    Path("t.yaml").write_text(YAML)
    assert render("e.yaml", "-o", "out", "--run-id", "e").exit_code == 0
    plan = json.loads(Path("out/results/e/plan.json").read_text())
    assert plan["experiment"]["stop"]["rounds"] == 3


def test_a_folder_that_cannot_be_mounted() -> None:
    refused = render("lan4", "--path", "/a:b")
    assert refused.exit_code == 3
    assert "(kollaps-path)" in refused.stderr
    assert render("lan4", "--path", "/a:b", "--orchestrator", "kubernetes").exit_code == 0


def test_a_topology_too_large_for_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.manifests.kollaps.render._MOST_CONFIG_BYTES", 500)
    refused = render("lan4", "--orchestrator", "kubernetes")
    assert refused.exit_code == 3
    assert "(kollaps-config-size)" in refused.stderr
    assert render("lan4").exit_code == 0


def test_bad_names_of_runs() -> None:
    assert render("lan4", "--run-id", "../x").exit_code == 2


def test_the_commands_of_the_documentation_work() -> None:
    Path("experiment.yaml").write_text("topology: topologies/lan4.xml\n")
    page = Path(__file__).parents[2] / "docs" / "kollaps.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("$ testbed ")]
    assert len(lines) == 2
    for line in lines:
        done = CliRunner().invoke(main, shlex.split(line)[2:])
        assert done.exit_code == 0, (line, done.output)
    assert Path("wan16/kubernetes.yaml").is_file()


def test_the_documentation_tells_every_code_of_its_own() -> None:
    page = (Path(__file__).parents[2] / "docs" / "kollaps.md").read_text()
    sources = [path.read_text() for path in Path(testbed.manifests.__file__).parent.rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'"(kollaps-[a-z-]+)"', text)}
    assert len(codes) > 10
    assert {code for code in codes if f"`{code}`" not in page} == set()
