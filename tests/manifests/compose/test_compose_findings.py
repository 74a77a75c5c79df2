"""What is said when a run is rendered for Compose, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import testbed.manifests.compose.findings as findings_module
from testbed.errors import Finding, InvalidInput, Severity, error
from testbed.topologies.model import Topology
from tests.manifests.compose.composing import hostile, rendered, star

PAGE = Path(__file__).parents[3] / "docs" / "compose.md"


def said(source: str, *settings: str, parameters: int | None = None) -> dict[str, Finding]:
    found = rendered(source, *settings, parameters=parameters).said
    assert len({each.code for each in found}) == len(found), "each once"
    return {each.code: each for each in found}


def test_nothing_is_said_of_what_is_as_it_says() -> None:
    assert said("lan4", "data.name=digits") == {}
    assert said("churn16") == {}


def test_names_that_had_to_be_changed() -> None:
    finding = said(hostile())["compose-name"]
    assert "`a: b.0`, which is `a--b.0-r4`" in finding.message
    assert finding.severity is Severity.NOTE
    assert finding.where.line == 6


def test_images_and_commands_of_services() -> None:
    found = said(star({"a": {}, "b": {"image": "mine:1"}, "c": {"command": ["serve"]}}))
    assert set(found) == {"compose-image", "compose-command"}
    assert "`b`" in found["compose-image"].message
    assert "`c`" in found["compose-command"].message
    assert found["compose-command"].severity is Severity.WARNING
    assert found["compose-command"].where.line > found["compose-image"].where.line


def test_a_device_too_small_for_a_learner() -> None:
    small = star({"a": {"memory": "1GB"}, "b": {"memory": "64MB"}})
    finding = said(small)["compose-memory"]
    assert "`b` has 64MB, and its containers get 512MiB" in finding.message
    assert said(small, parameters=40_000_000)["compose-memory"].message.startswith("`a` has")
    assert set(said(star({"a": {"memory": "500MB"}}))) == {"compose-memory"}
    assert said(star({"a": {"memory": "600MB"}})) == {}


def test_a_model_of_unknown_size() -> None:
    code = "model.name=package.module:Net"
    assert "`package.module:Net`" in said("lan4", code)["compose-model-size"].message
    assert said("lan4", code, parameters=5) == {}


def test_files_that_no_container_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("")
    found = said("lan4", "algorithm.name=mine.py:Mine")
    assert "`mine.py`" in found["compose-own-files"].message
    assert found["compose-own-files"].severity is Severity.WARNING


def test_what_no_engine_can_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(_topology: Topology) -> list[Finding]:
        return [error("docker-name", "n"), error("docker-addresses", "a")]

    monkeypatch.setattr(findings_module, "docker_findings", addresses)
    with pytest.raises(InvalidInput) as refused:
        rendered("lan4")
    assert [each.code for each in refused.value.findings] == ["docker-addresses"]


def test_the_documentation_tells_every_code() -> None:
    source = Path(findings_module.__file__).read_text()
    codes = {
        line.split('"')[1] for line in source.splitlines() if line.strip().startswith(("yield note(", "yield warning("))
    }
    assert len(codes) == 6
    assert {code for code in codes if f"`{code}`" not in PAGE.read_text()} == set()
