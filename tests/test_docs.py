"""The documentation tells the truth: every example in it is run."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.cli.verbs import HIDDEN, VERBS
from testbed.errors import ExitCode
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
    "page",
    [
        *("README.md", "docs/commands.md", "docs/topology.md"),
        *("docs/writing-an-algorithm.md", "docs/api.md", "docs/writing-a-model.md"),
    ],
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
    if page == "README.md":
        assert_the_readme_quotes(tmp_path / "results")


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
    started: set[str] = set()
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
    assert ran > 12
    assert len(started) > 5


TUTORIALS = {
    "docs/writing-an-algorithm.md": ("gossip", "gossip-twice"),
    "docs/api.md": ("fragments", "asking"),
    "docs/writing-a-model.md": ("own-model",),
}


def test_the_page_of_the_interface_is_up_to_date_and_leaves_nothing_out() -> None:
    """If not: scripts/api-page."""
    page = runpy.run_path(str(ROOT / "scripts" / "api-page"))
    assert not any(page["unlisted"]().values())
    assert page["written"](page["PAGE"].read_text()) == page["PAGE"].read_text()


def assert_the_readme_quotes(results: Path) -> None:
    """What the README says of its worked example is what its commands give, but for what processors round."""
    prose = " ".join((ROOT / "README.md").read_text().split())
    quoted = re.search(
        r"accuracy of 0\.8, `topk` sends ([\d.]+) MB and `full` ([\d.]+) MB\. "
        r"But `full` takes ([\d.]+) s of emulated time and `topk` ([\d.]+) s",
        prose,
    )
    assert quoted is not None
    result = CliRunner().invoke(main, ["collect", str(results), "--target", "0.8", "--format", "json"])
    found = {run["run_id"]: run for run in json.loads(result.stdout)["runs"]}
    measured = [found[run]["bytes_to_target"] / 1e6 for run in ("topk", "full")]
    measured += [found[run]["time_to_target_s"] for run in ("full", "topk")]
    assert [float(figure) for figure in quoted.groups()] == pytest.approx(measured, rel=0.1)


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


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    """What `#` may name of a page: its headings, in lower case, with hyphens for blanks and without marks."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if "://" in target:
            continue
        led_to = page.parent / target if target else page
        assert led_to.exists(), target
        assert not heading or heading in anchors(led_to), f"{target}#{heading}"


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", text))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_the_picture_of_a_topology_is_what_draw_gives(tmp_path: Path) -> None:
    """By all that is written in it; `scripts/pictures` makes it anew."""
    result = CliRunner().invoke(main, ["draw", "topologies/wan16.xml", "-o", str(tmp_path / "wan16.svg")])
    assert result.exit_code == 0
    drawn, shown = (folder / "wan16.svg" for folder in (tmp_path, ROOT / "docs" / "pictures"))
    written = re.compile(r"<(?:text|title)[^>]*>([^<]+)<")
    assert sorted(written.findall(drawn.read_text())) == sorted(written.findall(shown.read_text()))


def test_the_glossary_has_at_most_thirty_terms_each_for_one_thing() -> None:
    rows = re.findall(r"^\| ([a-z][a-z ]*) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert rows[0] == "term"
    terms = rows[1:]
    assert 20 <= len(terms) <= 30
    assert len(terms) == len(set(terms))
    assert "](docs/glossary.md)" in (ROOT / "README.md").read_text()


def test_every_command_and_exit_code_is_listed() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert {verb for verb in VERBS if verb not in HIDDEN} == set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == {int(code) for code in ExitCode}


WRAPPED = [page for page in PAGES if page.name != "CHANGELOG.md"]
WIDEST = 100


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page outside of tables and code, without what links lead to."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.lstrip().startswith("|"):
            yield number, re.sub(r"\]\([^)]*\)", "]", line)


@pytest.mark.parametrize("page", WRAPPED, ids=lambda path: path.name)
def test_prose_is_wrapped_and_names_its_subjects(page: Path) -> None:
    for number, line in prose(page):
        assert len(line) <= WIDEST, f"{page.name}:{number}: {len(line)} columns"
    vague = re.search(r"\b(whoever|somebody|nobody)\b", page.read_text(), re.IGNORECASE)
    assert vague is None, f"{page.name}: {vague}"


@pytest.mark.parametrize("page", WRAPPED, ids=lambda path: path.name)
def test_a_page_begins_with_a_sentence(page: Path) -> None:
    title, empty, first = page.read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert not empty
    assert re.match(r"[A-Z`*\w]", first), f"{page.name} begins with {first!r}"


def test_the_architecture_is_one_page_and_leads_to_all_internals() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    without_drawings = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    words = [word for word in without_drawings.split() if re.search(r"\w", word)]
    assert len(words) <= 900, "tables included"
    described = {page.name for page in (ROOT / "docs" / "internals").glob("*.md")}
    assert described - set(re.findall(r"\]\(docs/internals/([\w-]+\.md)\)", text)) <= LINKED_BY_OTHERS


LINKED_BY_OTHERS = {"random-numbers.md"}
"""fabric.md leads to it."""


INTERNALS = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")),
    *(ROOT / "docs" / "internals").glob("*.md"),
]


@pytest.mark.parametrize("page", sorted(INTERNALS), ids=lambda path: path.name)
def test_modules_and_folders_that_are_named_exist(page: Path) -> None:
    """`folder/`, `folder/module.py` and `module.py`, from the package or from the checkout; NAME is a reader's."""
    for name in re.findall(r"`([\w/]+(?:/|\.py))`", page.read_text()):
        found = any((root / name).exists() for root in (ROOT, ROOT / "testbed"))
        found = found or any(path for folder in CODE if "/" not in name for path in (ROOT / folder).rglob(name))
        assert found or "NAME" in name, name


CODE = ("testbed", "tests", "scripts")
