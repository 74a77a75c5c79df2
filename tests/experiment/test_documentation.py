"""docs/experiment.md tells the truth: its examples are run, and it has every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.cli.experiment_options import resolve
from testbed.errors import InvalidInput
from testbed.experiment.language import Experiment, json_schema
from testbed.experiment.read import load_experiment
from testbed.plan.make import make_plan
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "experiment.md"
OF_ALGORITHMS = ROOT / "docs" / "algorithms.md"
EXAMPLES = [(remark, text) for _, remark, text in blocks(PAGE, "yaml")]
FILES = {remark: text for _, remark, text in blocks(PAGE, "text") if remark}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5
    assert set(FILES) == {"edges.txt"}


@pytest.mark.parametrize(("remark", "text"), EXAMPLES)
def test_examples_make_a_plan_or_fail_as_they_say(
    remark: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(text)
    for name, content in FILES.items():
        Path(name).write_text(content)
    if not remark:
        resolved = resolve("bad.yaml", [])
        plan = make_plan(resolved.experiment, resolved.topology, run_id="r", source=resolved.origin)
        assert plan.nodes
        return
    with pytest.raises(InvalidInput) as caught:
        load_experiment("bad.yaml").require()
    assert {each.code for each in caught.value.findings} == set(remark.removeprefix("error=").split(","))
    shown = "".join(block for _kind, _remark, block in blocks(PAGE, "text"))
    for each in caught.value.findings:
        assert f"bad.yaml:{each.where.line}:{each.where.column}: error: {each.message} ({each.code})\n" in shown
        assert f"    {each.hint}\n" in shown


def test_the_whole_language_has_every_section() -> None:
    whole = EXAMPLES[1][1]
    assert set(re.findall(r"^([a-z_]+):", whole, re.MULTILINE)) == set(Experiment.model_fields)


def test_every_key_is_told() -> None:
    """Options of an algorithm or a sharing may be told on the page of these alone."""
    told = set(re.findall(r"`(?:[a-z]+\.)?([a-z_]+)`", PAGE.read_text() + OF_ALGORITHMS.read_text()))
    schema = json_schema()
    for definition in [schema, *schema["$defs"].values()]:
        for part in definition.get("anyOf", [definition]):
            assert set(part.get("properties", {})) <= told


def test_every_code_is_told_and_exists() -> None:
    text = PAGE.read_text().split("Besides the")[1].split("\n\n")[0]
    told = set(re.findall(r"`([a-z-]+)`", text))
    rooms = [*(ROOT / "testbed" / "experiment").glob("*.py"), *(ROOT / "testbed" / "plan").glob("*.py")]
    sources = "\n".join(path.read_text() for path in [*rooms, ROOT / "testbed" / "cli" / "experiment_options.py"])
    raised = set(re.findall(r'(?:error|warning|Problem|complain)\(\s*"([a-z]+(?:-[a-z]+)*)"', sources))
    of_topologies = (ROOT / "docs" / "topology.md").read_text()
    assert {code for code in raised if f"`{code}`" not in of_topologies} == told - {
        code for code in told if f"`{code}`" in of_topologies
    }
    assert told <= raised
