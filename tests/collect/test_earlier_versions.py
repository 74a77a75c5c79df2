"""Run directories of earlier versions are read, with the figures that those versions gave.

What later versions add is not in what was noted, so columns and keys may come, and words may be put better; none may
go, and no figure change. `TESTBED_WRITE_GOLDEN=1 pytest tests/collect` notes the figures anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.errors import ExitCode

FIXTURES = Path(__file__).parent.parent / "fixtures"
RUNS, NOTED = FIXTURES / "runs", FIXTURES / "runs-read"
VERSIONS = sorted(each.name for each in RUNS.iterdir() if each.is_dir())
WORDS = ("problems", "why")
"""What is said about a run; figures and states stand elsewhere."""


def printed(*words: str | Path, expect: tuple[ExitCode, ...] = (ExitCode.OK,)) -> str:
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code in expect, (result.output, result.exception)
    return result.stdout


def collected(runs: Path, *words: str) -> str:
    """Some of the runs are incomplete, which is an exit code."""
    return printed("collect", runs, *words, expect=(ExitCode.OK, ExitCode.INCOMPLETE))


def cells(table: str) -> dict[str, list[str]]:
    """Of a printed table, by the first of each line: the run."""
    lines = [re.split(r" {2,}", line.strip()) for line in table.splitlines() if "  " in line.strip()]
    return {line[0]: line[1:] for line in lines[1:]}


def read(version: str) -> dict[str, object]:
    runs = RUNS / version
    by = {word: json.loads(collected(runs, "--by", word, "--format", "json")) for word in ("run", "node", "round")}
    return {
        "collect": by["run"]["runs"],
        "nodes": by["node"]["nodes"],
        "rounds": by["round"]["rounds"],
        "table": cells(collected(runs)),
        "grouped": len(json.loads(collected(runs, "--group", "--format", "json"))["groups"]),
        "status": json.loads(printed("status", "--results", runs, "--format", "json")),
        "status table": cells(printed("status", "--results", runs)),
        "one by one": [
            json.loads(printed("status", run.name, "--results", runs, "--format", "json"))[0]
            for run in sorted(runs.iterdir())
        ],
    }


def differences(noted: object, found: object, where: str) -> list[str]:
    """Where figures are missing or others; what was never noted is not looked at."""
    if isinstance(noted, dict):
        if not isinstance(found, dict):
            return [f"{where}: {found!r}"]
        missing = [f"{where}: no {key}" for key in noted if key not in found]
        return missing + [
            each
            for key in noted
            if key in found and key not in WORDS
            for each in differences(noted[key], found[key], f"{where}.{key}")
        ]
    if isinstance(noted, list) and isinstance(found, list):
        if all(isinstance(each, str) for each in noted):  # a table's line, which may have got more columns
            rest = iter(found)
            return [] if all(cell in rest for cell in noted) else [f"{where}: {found} was {noted}"]
        if len(noted) == len(found):
            pairs = enumerate(zip(noted, found, strict=True))
            return [each for at, (one, other) in pairs for each in differences(one, other, f"{where}[{at}]")]
    return [] if noted == found else [f"{where}: {found!r} was {noted!r}"]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_earlier_versions_left_is_read_with_the_same_figures(version: str) -> None:
    found, noted = read(version), NOTED / f"{version}.json"
    if os.environ.get("TESTBED_WRITE_GOLDEN"):
        noted.parent.mkdir(exist_ok=True)
        noted.write_text(json.dumps(found, indent=1) + "\n")
    assert differences(json.loads(noted.read_text()), found, version) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_they_name_nothing_of_the_machine_that_made_them(version: str) -> None:
    for file in (RUNS / version).rglob("*"):
        if file.is_file():
            assert not re.search(r"/(home|root|work|Users)/", file.read_text()), file


def test_a_figure_that_changes_or_goes_is_noticed_and_one_that_comes_is_not() -> None:
    noted = {"rows": [{"t": 1.5, "why": "a"}], "line": ["x", "2"]}
    assert differences(noted, {"rows": [{"t": 1.5, "why": "b", "more": 1}], "line": ["x", "new", "2"]}, "v") == []
    assert differences(noted, {"rows": [{"t": 1.6, "why": "a"}], "line": ["x", "2"]}, "v") == [
        "v.rows[0].t: 1.6 was 1.5"
    ]
    assert differences(noted, {"rows": [{"why": "a"}], "line": ["x"]}, "v") == [
        "v.rows[0]: no t",
        "v.line: ['x'] was ['x', '2']",
    ]
