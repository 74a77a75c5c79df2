"""The documentation tells the truth: every example in it is run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from tests.cli.written_commands import assert_command_exists

ROOT = Path(__file__).parents[1]
TOPOLOGY = ROOT / "docs" / "topology.md"
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path, *kinds: str) -> Iterator[tuple[str, str, str]]:
    """Kind, remark and text of every fenced block of these kinds."""
    for kind, remark, text in FENCE.findall(path.read_text()):
        if kind in kinds:
            yield kind, remark.strip(), text


EXAMPLES = list(blocks(TOPOLOGY, "yaml", "xml"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize(("kind", "remark", "text"), EXAMPLES)
def test_examples_load_or_fail_as_they_say(kind: str, remark: str, text: str) -> None:
    loaded = load_bytes(text.encode(), Form(kind), "bad.yaml")
    expected = set(remark.removeprefix("error=").split(",")) if remark else set()
    assert {finding.code for finding in loaded.findings} == expected
    if expected:
        shown = "".join(block for _kind, _remark, block in blocks(TOPOLOGY, "text"))
        for finding in loaded.findings:
            where = f"bad.yaml:{finding.where.line}:{finding.where.column}"
            assert f"{where}: error: {finding.message} ({finding.code})\n    {finding.hint}\n" in shown


def test_the_codes_are_all_told_and_all_exist() -> None:
    told = TOPOLOGY.read_text().split("The codes:")[1].split("\n\n")[0]
    listed = set(re.findall(r"`([a-z-]+)`", told))
    modules = [*(ROOT / "testbed" / "topologies").glob("*.py"), *(ROOT / "testbed" / "network").glob("*.py")]
    sources = [path.read_text() for path in [*modules, ROOT / "testbed" / "errors.py"]]
    everything = [path.read_text() for path in (ROOT / "testbed").rglob("*.py")]
    quoted = {word for text in everything for word in re.findall(r'"([a-z]+(?:-[a-z]+)*)"', text)}
    assert listed <= quoted
    raised = {
        code
        for text in sources
        for code in re.findall(r'(?:error|warning|note|Problem|stop)\(\s*"([a-z]+(?:-[a-z]+)*)"', text)
    }
    assert {code for code in raised if not code.startswith("kollaps-")} <= listed | NOT_IN_TOPOLOGY_FILES


NOT_IN_TOPOLOGY_FILES = {
    # notes of the XML reader: it puts `kollaps-` before them
    *("active-paths", "command", "event-order", "one-way", "one-way-event", "port", "rate", "supervisor", "unit")
}


def written(page: Path) -> dict[str, str]:
    """The files that a page shows, by the name it gives them."""
    shown = blocks(page, "python", "yaml")
    return {remark.removeprefix("file="): text for _kind, remark, text in shown if remark.startswith("file=")}


@pytest.mark.parametrize(
    "page", ["README.md", "docs/topology.md", "docs/writing-an-algorithm.md", "docs/writing-a-model.md"]
)
@pytest.mark.slow
def test_commands_work(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(EXAMPLES[0][2])
    for name, text in written(ROOT / page).items():
        (tmp_path / name).write_text(text)
    ran = 0
    for _kind, _remark, text in blocks(ROOT / page, "console"):
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "testbed" and ">" not in words:
                result = CliRunner().invoke(main, words[1:])
                assert result.exit_code == 0, (line, result.output, result.exception)
                ran += 1
    assert ran
    if page in TUTORIALS:
        for run in TUTORIALS[page]:
            assert_it_learned(tmp_path / "results" / run)


SHOWN = [
    (page.name, line)
    for page in (ROOT / "README.md", ROOT / "docs" / "local.md", ROOT / "docs" / "image.md")
    for _kind, _remark, text in blocks(page, "sh")
    for line in text.splitlines()
    if line.startswith("testbed ")
]


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_commands_about_real_runs_are_written_as_they_are(page: str, line: str) -> None:  # noqa: ARG001 - names the test
    """They need runs that go on, so only the verb and its options are looked at."""
    assert_command_exists(line)


def test_the_readme_can_be_pasted_from_top_to_bottom() -> None:
    """No run is deployed twice, what is asked for of a run was deployed above, and every command exists."""
    lines = [line for _kind, _remark, text in blocks(ROOT / "README.md", "sh", "console") for line in text.splitlines()]
    started = {"lan4"}  # by Compose
    ran = 0
    for line in lines:
        words = shlex.split(line, comments=True)
        if not words or words[0] != "testbed":
            continue
        assert_command_exists(line)
        ran += 1
        named = re.findall(r"results/([\w-]+)", line)
        if words[1] in ("collect", "status", "destroy", "logs"):
            named += [word for word in words[2:3] if re.fullmatch("[a-z-]+", word)]
        if words[1] == "fault":
            named.append(words[3])
        assert set(named) <= started, f"nothing above has made it: {line}"
        if "--run-id" in words:
            run_id = words[words.index("--run-id") + 1]
            assert run_id not in started, f"the second time: {line}"
            started.add(run_id)
    assert ran > 20
    assert len(started) > 5


TUTORIALS = {
    "docs/writing-an-algorithm.md": ("gossip", "gossip-twice"),
    "docs/writing-a-model.md": ("own-model",),
}


def assert_it_learned(run: Path) -> None:
    """Every node mixed in what others sent, and they know much more than chance (0.1) or anybody alone (0.23)."""
    journals = sorted((run / "nodes").glob("*/journal.jsonl"))
    assert len(journals) == 16
    scores = []
    for journal in journals:
        records = [json.loads(line) for line in journal.read_text().splitlines()]
        assert sum(record["aggregated"] for record in records if record["type"] == "round") > 10, journal
        scores += [record["accuracy"] for record in records if record["type"] == "evaluation"][-1:]
    assert len(scores) == 16
    assert sum(scores) / 16 > 0.4


def test_an_algorithm_from_scratch_takes_no_more_than_thirty_lines() -> None:
    assert len(written(ROOT / "docs" / "writing-an-algorithm.md")["gossip.py"].splitlines()) <= 30


def test_every_code_of_a_target_is_told_and_exists() -> None:
    told = set(
        re.findall(r"`((?:kollaps|swarm|kubernetes|docker)-[a-z-]+)`", (ROOT / "docs" / "targets.md").read_text())
    )
    rooms = [ROOT / "testbed" / room for room in ("targets", "manifests")]
    modules = [path for room in rooms for path in room.rglob("*.py")]
    modules += (ROOT / "testbed" / "topologies").glob("*xml*.py")
    sources = "\n".join(path.read_text() for path in modules)
    written = set(re.findall(r'"((?:kollaps|swarm|kubernetes|docker)-[a-z-]+)"', sources))
    assert written <= told, "these codes are not in docs/targets.md"
    endings = set(re.findall(r'"-?([a-z]+(?:-[a-z]+)*)"|-([a-z]+(?:-[a-z]+)*)"', sources))
    flat = {ending for pair in endings for ending in pair}
    assert {code.split("-", 1)[1] for code in told} <= flat | {code.split("-", 1)[1] for code in written}


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda path: path.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target
