"""`testbed collect`: what it prints where, in every format, and its exit status."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.errors import ExitCode
from tests.collect.runs import two_nodes

RUN_KEYS = (
    *("run_id", "algorithm", "topology", "runtime", "engine", "seed", "nodes", "wall_clock_s", "round_s", "rounds"),
    *("bytes", "accuracy", "loss", "time_to_target_s", "bytes_to_target", "consensus_distance", "health", "problems"),
)
BYTES_KEYS = [
    *("payload_sent", "payload_received", "metadata_sent", "metadata_received"),
    *("control_sent", "control_received", "wire_sent", "wire_received"),
]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    two_nodes(folder, "one", seed=1)
    two_nodes(folder, "two", seed=2)
    return folder


def run(*arguments: str | Path, expect: ExitCode = ExitCode.OK) -> Result:
    result = CliRunner().invoke(main, ["collect", *map(str, arguments)])
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def test_a_table_has_a_line_for_each_run(results: Path) -> None:
    result = run(results)
    assert result.stderr == ""
    lines = [line.split() for line in result.stdout.splitlines() if line.strip(" ─")]
    assert lines[0][:3] == ["run", "algorithm", "nodes"]
    assert lines[1] == ["one", "dpsgd", "2/2", "2", "×", "1.250", "4.500", "324", "B", "0.800", "±", "0.100", "1.000"]
    assert [line[0] for line in lines] == ["run", "one", "two"]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_target_has_two_columns(results: Path) -> None:
    result = run(results / "one", "--target", "0.8")
    assert "s to 0.8   B to 0.8" in result.stdout
    assert result.stdout.split()[-3:] == ["4.500", "324", "B"]
    assert run(results / "one", "--target", "0.9").stdout.split()[-2:] == ["–", "–"]


def test_json(results: Path) -> None:
    result = run(results, "--format", "json", "--target", "0.5")
    printed = json.loads(result.stdout)
    assert list(printed) == ["runs"]
    first, second = printed["runs"]
    assert set(RUN_KEYS) <= set(first)
    assert list(first["nodes"].items()) == [("planned", 2), ("finished", 2), ("failed", 0), ("missing", 0)]
    assert list(first["bytes"]) == BYTES_KEYS
    assert first["bytes"]["wire_sent"] is None
    assert list(first["accuracy"]) == list(first["loss"]) == ["mean", "std", "min", "max"]
    assert list(first["round_s"]) == ["median", "p95"]
    assert list(first["averaged_model"]) == ["accuracy", "loss"]
    assert (first["time_to_target_s"], first["bytes_to_target"]) == (2.0, 256)
    assert (first["seed"], second["seed"], first["problems"]) == (1, 2, [])


def test_a_name_that_says_the_algorithm_needs_no_column_for_it(tmp_path: Path) -> None:
    two_nodes(tmp_path, "wan-dpsgd-1")
    assert "algorithm" not in run(tmp_path).stdout
    two_nodes(tmp_path, "other")
    assert "algorithm" in run(tmp_path).stdout


@pytest.mark.parametrize(("by", "name", "number"), [("node", "nodes", 4), ("round", "rounds", 4)])
def test_by_node_and_by_round(results: Path, by: str, name: str, number: int) -> None:
    printed = json.loads(run(results, "--by", by, "--format", "json").stdout)
    assert list(printed) == ["runs", name]
    assert len(printed[name]) == number
    rows = list(csv.DictReader(io.StringIO(run(results, "--by", by, "--format", "csv").stdout)))
    assert [row["run_id"] for row in rows] == ["one", "one", "two", "two"]
    table = run(results, "--by", by).stdout
    assert len([line for line in table.splitlines() if line.strip(" ─")]) == number + 1
    assert not run(results / "one", "--by", by).stdout.lstrip().startswith("run")


def test_csv_has_every_number_in_a_column_of_its_own(results: Path) -> None:
    (results / "two" / "nodes" / "n.1" / "journal.jsonl").write_bytes(b"")
    result = run(results, "--format", "csv", expect=ExitCode.INCOMPLETE)
    one, two = csv.DictReader(io.StringIO(result.stdout))
    assert (one["accuracy_mean"], one["bytes_payload_sent"], one["bytes_wire_sent"]) == ("0.8", "310", "")
    assert (one["complete"], two["complete"], one["problems"]) == ("true", "false", "")
    assert two["problems"].startswith("nodes/n.1/journal.jsonl is empty; ")


def test_groups(results: Path) -> None:
    printed = json.loads(run(results, "--group", "--format", "json").stdout)
    (group,) = printed["groups"]
    assert (group["runs"], group["seeds"], group["accuracy"]["n"]) == (["one", "two"], [1, 2], 2)
    assert "0.800 ± 0.000" in run(results, "--group", "--target", "0.5").stdout
    (row,) = csv.DictReader(io.StringIO(run(results, "--group", "--format", "csv").stdout))
    assert (row["runs"], row["wall_clock_s_high"]) == ("one; two", "4.5")


def test_incomplete_results_are_printed_all_the_same(results: Path) -> None:
    (results / "one" / "nodes" / "n.0" / "journal.jsonl").unlink()
    result = run(results, "--format", "json", expect=ExitCode.INCOMPLETE)
    first, second = json.loads(result.stdout)["runs"]
    assert (first["complete"], second["complete"]) == (False, True)
    assert first["nodes"]["missing"] == 1
    (problem,) = first["problems"]
    assert f"one: {problem}\n" in result.stderr
    assert "1 of 2 runs is incomplete" in result.stderr


def test_a_flood_of_problems_is_cut_short_on_stderr(results: Path) -> None:
    for number in range(30):
        folder = results / "one" / "nodes" / f"x.{number}"
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(b"\x1b[2J\n")
    (results / "one" / "plan.json").unlink()
    result = run(results, expect=ExitCode.INCOMPLETE)
    assert "… and 12 more" in result.stderr
    assert len(result.stderr.splitlines()) == 23
    assert "\x1b" not in result.stderr


def test_a_name_does_not_drive_the_terminal(results: Path) -> None:
    plan = json.loads((results / "one" / "plan.json").read_text())
    (results / "one" / "plan.json").write_text(json.dumps(plan | {"run_id": "\x1b[31m", "nodes": [{"name": "\x1b"}]}))
    result = run(results, expect=ExitCode.INCOMPLETE)
    assert "\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_file_gets_what_the_terminal_would(results: Path, tmp_path: Path, form: str) -> None:
    printed = run(results, "--format", form).stdout
    file = tmp_path / "out"
    result = run(results, "--format", form, "-o", file)
    assert result.stdout == ""
    assert file.read_text() == printed


def test_a_file_is_written_when_results_are_incomplete(results: Path, tmp_path: Path) -> None:
    (results / "one" / "plan.json").unlink()
    run(results, "--format", "json", "-o", tmp_path / "out", expect=ExitCode.INCOMPLETE)
    assert len(json.loads((tmp_path / "out").read_text())["runs"]) == 2


@pytest.mark.parametrize("options", [[], ["--by", "node"], ["--by", "round"], ["--group"]])
def test_parquet(results: Path, tmp_path: Path, options: list[str]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb, of the extra `parquet`, is not installed")
    file = tmp_path / "out.parquet"
    run(results, "--format", "parquet", "-o", file, *options)
    found = duckdb.read_parquet(str(file))
    rows = list(csv.reader(io.StringIO(run(results, "--format", "csv", *options).stdout)))
    assert found.columns == rows[0]

    def shown(cell: object) -> str:
        return "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)

    assert [[shown(cell) for cell in row] for row in found.fetchall()] == rows[1:]


def test_parquet_without_its_extra(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    result = run(results, "--format", "parquet", "-o", tmp_path / "out", expect=ExitCode.USAGE)
    assert "testbed[parquet]" in result.stderr
    assert not (tmp_path / "out").exists()


def test_usage(results: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no runs in" in run(empty, expect=ExitCode.USAGE).stderr
    assert "cannot read" in run(tmp_path / "nowhere", expect=ExitCode.USAGE).stderr
    assert "cannot read" in run(results / "one" / "plan.json", expect=ExitCode.USAGE).stderr
    assert "-o FILE" in run(results, "--format", "parquet", expect=ExitCode.USAGE).stderr
    assert "--by run only" in run(results, "--group", "--by", "node", expect=ExitCode.USAGE).stderr
    run(results, "--target", "1.5", expect=ExitCode.USAGE)
