"""`testbed link` on a fabric that runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from testbed.cli.link import COLUMNS, command
from testbed.errors import UsageProblem
from testbed.protocol.fabric import SetLink
from tests.cli.live_run import live_run

pytestmark = pytest.mark.processes


@pytest.fixture
def run(tmp_path: Path) -> Iterator[str]:
    with live_run(tmp_path) as (directory, _):
        yield str(directory.path)


def told(*words: str) -> str:
    result = CliRunner().invoke(command, [*words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(run: str, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(told("show", run, "n.0", "n.1", "--format", "json", *more))
    return found


def test_a_link_is_shown_changed_and_reset(run: str) -> None:
    before = shown(run)
    assert [(link["from"], link["to"]) for link in before] == [("n.0", "n.1"), ("n.1", "n.0")]
    assert list(before[0]) == list(COLUMNS)
    assert before[0]["latency_ms"] == 10.0
    assert before[0]["queue_bytes"] is None
    changes = ("--latency", "50ms", "--loss", "1%", "--rate", "10Mbps", "--jitter", "2ms", "--background", "1Mbps")
    assert told("set", run, "n.0", "n.1", *changes) == ""
    wanted = {"latency_ms": 50, "loss": 0.01, "rate_bps": 10e6, "jitter_ms": 2, "background_bps": 1e6, "changed": True}
    for link in shown(run):
        assert {name: link[name] for name in wanted} == wanted
        assert link["queue_ms"] == 50.0
    told("reset", run, "n.0", "n.1")
    assert shown(run) == before


def test_one_way_and_all(run: str) -> None:
    before = shown(run)
    told("set", run, "n.0", "n.1", "--latency", "0ms", "--queue", "64KiB", "--down", "--one-way")
    there, back = shown(run)
    assert (there["latency_ms"], there["queue_ms"], there["queue_bytes"], there["up"]) == (0.0, None, 65536.0, False)
    assert back == before[1]
    assert shown(run, "--one-way") == [there]
    told("set", run, "n.1", "n.0", "--rate", "unlimited", "--one-way")
    assert shown(run)[1]["rate_bps"] is None
    told("reset", run)
    assert shown(run) == before


def test_other_forms(run: str) -> None:
    table = told("show", run, "n.0", "n.1")
    assert "10ms" in table
    assert "20Mbps" in table
    rows = list(csv.reader(io.StringIO(told("show", run, "n.0", "n.1", "--format", "csv"))))
    assert rows[0] == list(COLUMNS)
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "n.0", "nobody"), "there is no node and no bridge `nobody` (nodes here: n.0, n.1)"),
        (("set", "n.0", "n.1"), "nothing to change"),
        (("reset", "n.0"), "two ends"),
        (("reset", "--one-way"), "two ends"),
    ],
)
def test_what_cannot_be(run: str, words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(command, [words[0], run, *words[1:]])
    assert isinstance(result.exception, UsageProblem)
    assert said in result.exception.message


def test_a_quantity_without_unit(run: str) -> None:
    result = CliRunner().invoke(command, ["set", run, "n.0", "n.1", "--latency", "50"])
    assert result.exit_code == 2
    assert "has no unit" in result.stderr


def test_a_run_that_is_over(tmp_path: Path) -> None:
    with live_run(tmp_path) as (directory, fabric):
        fabric.stop()
        result = CliRunner().invoke(command, ["reset", str(directory.path)])
        assert isinstance(result.exception, UsageProblem)
    result = CliRunner().invoke(command, ["reset", str(tmp_path / "nothing")])
    assert isinstance(result.exception, UsageProblem)


def test_everything_that_can_be_set_has_an_option() -> None:
    fields = set(SetLink.__struct_fields__) - {"number", "origin", "dest", "both"}
    options = {parameter.name for parameter in command.commands["set"].params}
    named = {field.removesuffix("_ms").removesuffix("_bps").removesuffix("_bytes") for field in fields}
    assert named <= options
