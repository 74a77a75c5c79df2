"""On a narrow terminal a table has fewer columns, and none of its names is cut in two: it could not be copied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli import status
from testbed.cli.link_figures import LinkFigures, PairFigures
from testbed.cli.main import main
from testbed.cli.output import Format
from testbed.cli.verify import _tell
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.load import load
from testbed.verify.judge import Row, Verdict
from testbed.verify.measure import Measured

LINES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")


def first_words(text: str) -> set[str]:
    return {line.split()[0] for line in LINES.sub("", text).splitlines() if line.split()}


def test_names_of_topologies() -> None:
    printed = CliRunner().invoke(main, ["topologies"]).stdout
    assert {each.name for each in BUNDLED} <= first_words(printed)
    assert max(map(len, LINES.sub("", printed).splitlines())) <= 60


def test_names_of_nodes() -> None:
    printed = CliRunner().invoke(main, ["paths", "topologies/wan16.xml"]).stdout
    assert set(load(BUNDLED[4].path).require().ranks) <= first_words(printed)
    assert "left out, as the terminal is narrow" in printed


def test_names_of_data() -> None:
    assert {"fashion-mnist", "movielens", "synthetic"} <= first_words(CliRunner().invoke(main, ["data", "list"]).stdout)


def test_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("n-california.0 → n-virginia.0", "round trip, least", 1.0, 1.0, "ms", Verdict.OK, "within " * 20)
    _tell("wan16", [], Measured((row,), ()), Format.TABLE)
    (shown,) = [line for line in capsys.readouterr().out.splitlines() if "california" in line]
    assert "n-california.0 → n-virginia.0" in shown
    assert "round trip, least" in shown


def test_links_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    link = LinkFigures("n-california.0", "r-n-california", 847_136.0, 139.0, 12, 6.58, 19.9)
    sent = PairFigures("n-virginia.0", "n-california.0", 847_136.0, 139.0, 12, 6.58)
    status._print([], [link], [sent], Format.TABLE)
    shown = [line for line in LINES.sub("", capsys.readouterr().out).splitlines() if "california" in line]
    assert re.search(r"n-california\.0 +r-n-california +847\.136kbps", shown[0])
    assert re.search(r"n-virginia\.0 +n-california\.0 +847\.136kbps", shown[1])
