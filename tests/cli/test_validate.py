"""`testbed validate`: what it prints where, in every format, and its exit status."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.errors import ExitCode

GOOD = """\
services: {a: {}, b: {}}
bridges: [x]
links:
  - {from: a, to: x, latency: 1ms, rate: 10Mbps}
  - {from: x, to: b, latency: 1ms, rate: 10Mbps}
"""
DOUBTFUL = GOOD.replace("latency: 1ms, rate", "latency: 1ms, jitter: 1ms, rate", 1)
BAD = GOOD.replace("10Mbps", "10Mb").replace("to: b", "to: c")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("good", GOOD), ("doubtful", DOUBTFUL), ("bad", BAD)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def run(*arguments: str | Path, expect: ExitCode = ExitCode.OK) -> Result:
    result = CliRunner().invoke(main, ["validate", *map(str, arguments)])
    assert result.exit_code == expect, result.output
    return result


def test_a_good_file_is_one_line(folder: Path) -> None:
    file = folder / "good.yaml"
    result = run(file)
    assert result.stdout == f"{file}: ok: 2 nodes, 1 bridge, 4 links\n"
    assert result.stderr == ""


def test_warnings_are_told_and_are_no_failure(folder: Path) -> None:
    file = folder / "doubtful.yaml"
    result = run(file)
    assert result.stdout == f"{file}: ok: 2 nodes, 1 bridge, 4 links; 1 warning\n"
    assert result.stderr.startswith(f"{file}:4:5: warning: link from `a` to `x`: a jitter of 1ms")
    assert "(jitter)\n    " in result.stderr


def test_all_errors_are_told_at_once_and_fail(folder: Path) -> None:
    file = folder / "bad.yaml"
    result = run(file, expect=ExitCode.INVALID_INPUT)
    assert result.stdout == f"{file}: 3 errors\n"
    assert [line.split(": ")[0].removeprefix(str(file)) for line in result.stderr.splitlines() if "error:" in line] == [
        ":4:42",
        ":5:19",
        ":5:42",
    ]


def test_json_is_alone_on_stdout(folder: Path) -> None:
    result = run(folder / "bad.yaml", "--format", "json", expect=ExitCode.INVALID_INPUT)
    found = json.loads(result.stdout)
    assert list(found) == ["file", "ok", "findings"]
    assert found["file"] == str(folder / "bad.yaml")
    assert found["ok"] is False
    assert len(found["findings"]) == 3
    assert {tuple(each) for each in found["findings"]} == {("severity", "code", "line", "column", "message", "hint")}
    assert found["findings"][0]["severity"] == "error"
    assert (found["findings"][0]["line"], found["findings"][0]["column"]) == (4, 42)
    assert json.loads(run(folder / "good.yaml", "--format", "json").stdout)["ok"] is True
    doubtful = json.loads(run(folder / "doubtful.yaml", "--format", "json").stdout)
    assert (doubtful["ok"], [each["code"] for each in doubtful["findings"]]) == (True, ["jitter"])


def test_csv_has_the_same_columns(folder: Path) -> None:
    rows = list(csv.reader(io.StringIO(run(folder / "doubtful.yaml", "--format", "csv").stdout)))
    assert rows[0] == ["severity", "code", "line", "column", "message", "hint"]
    assert [row[:4] for row in rows[1:]] == [["warning", "jitter", "4", "5"]]
    assert run(folder / "bad.yaml", "--format", "csv", expect=ExitCode.INVALID_INPUT).stdout.count("\nerror,") == 3


def test_a_target_adds_its_rules(folder: Path) -> None:
    file = folder / "good.yaml"
    codes = {
        target: {
            each["code"]
            for each in json.loads(
                CliRunner().invoke(main, ["validate", str(file), "--for", target, "--format", "json"]).stdout
            )["findings"]
        }
        for target in ("kollaps", "swarm", "kubernetes", "docker")
    }
    assert codes == {
        "kollaps": {"kollaps-no-supervisor", "kollaps-images"},
        "swarm": set(),
        "kubernetes": set(),
        "docker": set(),
    }
    assert run(file, "--for", "kollaps", expect=ExitCode.INVALID_INPUT).stdout == f"{file}: 1 error, 1 warning\n"
    run(file, "--for", "nothing", expect=ExitCode.USAGE)


def test_a_target_has_nothing_to_add_to_a_file_that_cannot_be_read(folder: Path) -> None:
    plain, judged = (
        run(folder / "bad.yaml", *options, "--format", "json", expect=ExitCode.INVALID_INPUT).stdout
        for options in ((), ("--for", "kollaps"))
    )
    assert plain == judged


def test_of_many_findings_the_first_are_printed_and_the_rest_counted(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text("services: {a: {}}\nlinks:\n" + "  - {from: a, to: z, latency: 1ms, rate: 1Mbps}\n" * 130)
    result = run(file, expect=ExitCode.INVALID_INPUT)
    assert result.stderr.count(": error: ") == 100
    assert "… and 30 more" in result.stderr
    assert result.stdout == f"{file}: 130 errors\n"
    everything = json.loads(run(file, "--format", "json", expect=ExitCode.INVALID_INPUT).stdout)
    assert len(everything["findings"]) == 130


def test_a_file_that_is_not_there_is_a_mistake_of_usage(tmp_path: Path) -> None:
    result = run(tmp_path / "none.yaml", expect=ExitCode.USAGE)
    assert "does not exist" in result.stderr
    assert result.stdout == ""


def test_help_has_an_example() -> None:
    assert "testbed validate topologies/wan256.xml" in run("--help").stdout


@pytest.mark.processes
def test_the_command_as_a_process(folder: Path) -> None:
    """A bundled file by its name, and the exit status that a shell sees."""
    command = [sys.executable, "-c", "from testbed.cli.main import main; main()", "validate"]
    good = subprocess.run(
        [*command, "topologies/wan256.xml", "--for", "kollaps"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert good.returncode == 0, good.stderr
    assert "256 nodes, 10 bridges, 602 links; 3 warnings" in good.stdout
    assert "wan256.xml:" in good.stderr
    bad = subprocess.run(
        [*command, "bad.yaml", "--format", "json"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert bad.returncode == 3
    assert bad.stderr == ""
    assert json.loads(bad.stdout)["ok"] is False
