"""`testbed collect`: what it prints where, in every format, and its exit status."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.errors import ExitCode
from tests.collect.runs import end, evaluation, plan, round_, start, text, two_nodes, write

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
    assert lines[0][:3] == ["run", "algo", "runtime"]
    assert lines[1] == ["one", "dpsgd", "sim", "2/2", "2", "1.250", "4.500", "324", "B", "0.800", "±", "0.100", "1.000"]
    assert [line[0] for line in lines] == ["run", "one", "two", "emulated", "round", "±:"]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_the_data_plane_is_told_where_runs_differ_in_it(tmp_path: Path) -> None:
    two_nodes(tmp_path, "virtual")
    for name in ("native", "python"):
        folder = two_nodes(tmp_path, f"by-{name}", runtime="local").path / "engine"
        folder.mkdir()
        assert "data plane" not in run(tmp_path).stdout
        (folder / "health.json").write_text(f'{{"data_plane": "{name}"}}')
    told = run(tmp_path).stdout
    assert told.split()[2:5] == ["runtime", "data", "plane"]
    assert [row_of(told, each).split()[2:4] for each in ("by-native", "by-python", "virtual")] == [
        ["local", "native"],
        ["local", "python"],
        ["sim", "–"],
    ]


def test_a_target_has_two_columns(results: Path) -> None:
    result = run(results / "one", "--target", "0.8")
    assert "s to 0.8   B to 0.8" in result.stdout
    assert row_of(result.stdout, "one").split()[-3:] == ["4.500", "324", "B"]
    assert row_of(run(results / "one", "--target", "0.9").stdout, "one").split()[-2:] == ["–", "–"]
    assert "accuracy is known every round (about 2 s)" in result.stdout


def test_a_target_may_be_a_percentage(results: Path) -> None:
    assert run(results / "one", "--target", "80%").stdout == run(results / "one", "--target", "0.8").stdout
    assert "did you mean 80%?" in run(results / "one", "--target", "80", expect=ExitCode.USAGE).stderr


def test_how_often_one_looked_is_told_with_a_target(tmp_path: Path) -> None:
    for name, apart in (("one", 4), ("two", 10)):
        records = [start(0), evaluation(1.0, 0, 0.5), evaluation(1.0 + apart / 2, apart, 0.7), end(9.0)]
        write(tmp_path, {"n.0": text(records)}, plan(1, run_id=name), run_id=name)
    assert "accuracy is known every 4 rounds (about 2 s), so" in run(tmp_path / "one", "--target", "0.7").stdout
    assert "accuracy is known every 4 to 10 rounds (about 2 to 5 s), so" in run(tmp_path, "--target", "0.7").stdout
    assert "known every 4 to 10 rounds" in run(tmp_path, "--target", "0.7", "--group").stdout
    assert "known" not in run(tmp_path).stdout
    (found,) = json.loads(run(tmp_path / "two", "--target", "0.7", "--format", "json").stdout)["runs"]
    assert found["target_between_s"] == [1.0, 6.0]
    assert found["evaluated"] == {"nodes": 1, "every_rounds": 10.0, "every_s": 5.0}


def test_one_number_has_no_give_or_take(tmp_path: Path) -> None:
    records = [start(0), round_(1.0, 0), evaluation(1.0, 0, 0.5), end(2.0)]
    write(tmp_path, {"n.0": text(records)}, plan(1))
    for options in ([], ["--by", "round"], ["--group"]):
        printed = run(tmp_path, *options).stdout
        assert "0.500" in printed
        assert "±" not in printed


def row_of(table: str, name: str) -> str:
    (row,) = [line for line in table.splitlines() if line.strip().startswith(name)]
    return row


def test_what_give_or_take_is(results: Path) -> None:
    assert "±: standard deviation over the nodes of a run" in run(results).stdout
    assert "±: standard deviation over the nodes of a run" in run(results, "--by", "round").stdout
    assert "±: half of the 95 % interval of the mean" in run(results, "--group").stdout


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int, *arguments: str | Path) -> str:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    return re.sub(r"\x1b\[[0-9;]*m", "", run(*arguments).stdout)


LONG = "quickstart-20261118-163353"


@pytest.mark.parametrize(
    ("width", "out"),
    [
        (120, None),
        (100, "runtime, round s"),
        (80, "runtime, round s, loss, rounds, algo"),
        (50, "runtime, round s, loss, rounds, algo, nodes, out, emulated s"),
        (20, "runtime, round s, loss, rounds, algo, nodes, out, emulated s"),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns_and_whole_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, out: str | None
) -> None:
    two_nodes(tmp_path, LONG)
    printed = on_a_terminal(monkeypatch, width, tmp_path)
    row = row_of(printed, LONG)
    assert "0.800 ± 0.100" in row
    assert len(row.rstrip()) <= max(width, 44)
    head = row_of(printed, "run ").split("   ")
    told = " ".join(printed.split()).partition("left out, as the terminal is narrow: ")[2]
    assert told.startswith(f"{out} (--format csv") if out else not told
    assert not {name.strip() for name in head} & set(out.split(", ") if out else [])
    assert ("round s: the median" in printed) == (out is None)


@pytest.mark.parametrize("by", ["node", "round"])
@pytest.mark.parametrize("width", [100, 80])
def test_other_tables_fit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, by: str) -> None:
    two_nodes(tmp_path, LONG)
    two_nodes(tmp_path, LONG + "-2")
    printed = on_a_terminal(monkeypatch, width, tmp_path, "--by", by)
    assert max(map(len, printed.splitlines())) <= width
    assert len([line for line in printed.splitlines() if line.strip().startswith(LONG)]) == 4


def test_words_that_tell_groups_apart_are_wrapped_between_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, lr in (("one", 0.1), ("two", 0.2)):
        training = {f"a-setting-{number}": lr for number in range(5)}
        two_nodes(tmp_path, name, experiment={"algorithm": {"name": "dpsgd"}, "training": training})
    printed = on_a_terminal(monkeypatch, 80, tmp_path, "--group")
    assert max(map(len, printed.splitlines())) <= 80
    for number in range(5):
        assert f"a-setting-{number}=0.1 " in printed
    assert "0.800" in printed


def test_folders_that_hold_runs_too_are_named(results: Path, tmp_path: Path) -> None:
    assert run(results).stderr == ""
    two_nodes(results / "g", "three")
    two_nodes(results / "h", "four")
    (results / "notes").mkdir()
    result = run(results)
    assert f"2 folders here hold runs too, which are left out: {results / 'g'}, {results / 'h'}\n" == result.stderr
    assert "three" not in result.stdout
    assert run(results / "one").stderr == ""
    message = run(tmp_path, expect=ExitCode.USAGE).stderr
    assert f"no runs in {tmp_path}" in message
    assert f"these hold runs: {results}" in message


def test_a_seed_that_was_run_twice_counts_once_and_is_told(results: Path) -> None:
    two_nodes(results, "zero", seed=1)
    result = run(results, "--group", "--format", "json")
    (group,) = json.loads(result.stdout)["groups"]
    assert (group["runs"], group["left_out"], group["accuracy"]["n"]) == (["two", "zero"], ["one"], 2)
    assert "a seed counts once in a group; left out of it: one" in result.stderr


def test_groups_are_told_apart(results: Path) -> None:
    experiment = {"algorithm": {"name": "dpsgd"}, "overlay": {"kind": "ring"}, "training": {"lr": 0.1}, "seed": 1}
    two_nodes(results, "three", seed=1, experiment=experiment)
    printed = run(results, "--group", "--format", "json").stdout
    assert [each["differs"] for each in json.loads(printed)["groups"]] == [{}, {"training.lr": "0.1"}]
    rows = list(csv.DictReader(io.StringIO(run(results, "--group", "--format", "csv").stdout)))
    assert [row["differs"] for row in rows] == ["", "training.lr=0.1"]
    assert "lr=0.1" in run(results, "--group").stdout


def test_json(results: Path) -> None:
    result = run(results, "--format", "json", "--target", "0.5")
    printed = json.loads(result.stdout)
    assert list(printed) == ["runs"]
    first, second = printed["runs"]
    assert set(RUN_KEYS) <= set(first)
    counts = [("planned", 2), ("finished", 2), ("failed", 0), ("missing", 0), ("crashed", 0)]
    assert list(first["nodes"].items()) == counts
    assert list(first["bytes"]) == BYTES_KEYS
    assert first["bytes"]["wire_sent"] is None
    assert list(first["accuracy"]) == list(first["loss"]) == ["mean", "std", "min", "max"]
    assert list(first["round_s"]) == ["median", "p95"]
    assert list(first["averaged_model"]) == ["accuracy", "loss", "nodes", "round", "t"]
    assert (first["time_to_target_s"], first["bytes_to_target"]) == (2.0, 256)
    assert (first["seed"], second["seed"], first["problems"]) == (1, 2, [])


def test_a_name_that_says_the_algorithm_needs_no_column_for_it(tmp_path: Path) -> None:
    two_nodes(tmp_path, "wan-dpsgd-1")
    assert "algo" not in run(tmp_path).stdout
    two_nodes(tmp_path, "other")
    assert "algo" in run(tmp_path).stdout


@pytest.mark.parametrize(("by", "name", "number"), [("node", "nodes", 4), ("round", "rounds", 4)])
def test_by_node_and_by_round(results: Path, by: str, name: str, number: int) -> None:
    printed = json.loads(run(results, "--by", by, "--format", "json").stdout)
    assert list(printed) == ["runs", name]
    assert len(printed[name]) == number
    rows = list(csv.DictReader(io.StringIO(run(results, "--by", by, "--format", "csv").stdout)))
    assert [row["run_id"] for row in rows] == ["one", "one", "two", "two"]
    table = run(results, "--by", by).stdout
    assert len([line for line in table.splitlines() if line.strip().startswith(("one", "two"))]) == number
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
        (folder / "journal.jsonl").write_bytes(b"\n" * number + b"\x1b[2J\n")
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
    assert "scripts/venv parquet" in result.stderr
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("testbed.collect.parquet._CHECKOUT", tmp_path)
    result = run(results, "--format", "parquet", "-o", tmp_path / "out", expect=ExitCode.USAGE)
    assert "pip install 'testbed[parquet]'" in result.stderr


def test_usage(results: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no runs in" in run(empty, expect=ExitCode.USAGE).stderr
    assert "cannot read" in run(tmp_path / "nowhere", expect=ExitCode.USAGE).stderr
    assert "cannot read" in run(results / "one" / "plan.json", expect=ExitCode.USAGE).stderr
    assert "-o FILE" in run(results, "--format", "parquet", expect=ExitCode.USAGE).stderr
    assert "--by run only" in run(results, "--group", "--by", "node", expect=ExitCode.USAGE).stderr
    run(results, "--target", "1.5", expect=ExitCode.USAGE)


def test_a_run_by_its_name(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(results.parent)
    assert json.loads(run("two", "--format", "json").stdout)["runs"][0]["run_id"] == "two"
    results.rename("elsewhere")
    assert "two" in run("two", "--results", "elsewhere").stdout
    assert "did you mean `two`?" in run("twoo", "--results", "elsewhere", expect=ExitCode.USAGE).stderr


def test_a_failed_run_is_incomplete_and_says_why(results: Path) -> None:
    failed = '{"type":"event","t":4.0,"what":"failed","detail":"waits in vain","node":"n.1"}\n'
    over = '{"type":"over","t":5.0,"reason":"failed","finished":0,"failed":1}\n'
    (results / "one" / "events.jsonl").write_text(failed + over)
    printed = run(results / "one", "--format", "json", expect=ExitCode.INCOMPLETE)
    (found,) = json.loads(printed.stdout)["runs"]
    assert (found["nodes"]["finished"], found["nodes"]["failed"], found["complete"]) == (1, 1, False)
    assert "n.1 (waits in vain)" in printed.stderr
