"""The example of an algorithm of one's own does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.code import CodeProblem
from testbed.node.choose import choose_algorithm
from tests.image.engine import EXAMPLE


def test_it_runs_for_two_rounds_and_mixes(tmp_path: Path) -> None:
    arguments = [
        "deploy",
        str(EXAMPLE / "experiment.yaml"),
        "--rounds",
        "2",
        "--results",
        str(tmp_path),
        "--run-id",
        "x",
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    journals = sorted((tmp_path / "x" / "nodes").glob("*/journal.jsonl"))
    assert len(journals) == 4
    rounds = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
    rounds = [each for each in rounds if each["type"] == "round"]
    assert len(rounds) == 8
    assert sum(each["aggregated"] for each in rounds) > 0


@pytest.mark.parametrize("options", [{"pushes": 0}, {"fade": 0.0}, {"fade": 1.5}, {"unknown": 1}])
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(CodeProblem) as caught:
        choose_algorithm(f"{EXAMPLE / 'fresh_gossip.py'}:FreshGossip", options)
    assert caught.value.file == "fresh_gossip.py"
