"""`testbed status` and `testbed logs` of runs that do not go on, and of one whose links are busy."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from testbed.cli.link_figures import busiest
from testbed.cli.main import main
from testbed.cli.status import COLUMNS
from testbed.engines.fabric.accounts import LinkLine, Second
from testbed.plan.files import write_plan
from testbed.records import Count
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.local.places import Places, ProcessRecord, Recorded, process_record, record_of
from tests.collect.runs import end, evaluation, round_, start, text
from tests.plan.test_make import nodes, plan_of


def told(*words: str) -> Result:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> RunDirectory:
    directory = create_run(Path("results"), "one")
    write_plan(directory, plan_of(nodes(2)).model_copy(update={"runtime": "local"}))
    return directory


def state(run: str = "one") -> tuple[str, float | None]:
    (row,) = json.loads(told("status", run, "--format", "json").stdout)
    return row["state"], row["t"]


def test_what_became_of_a_run(run: RunDirectory) -> None:
    assert state() == ("unfinished", None)
    event = '{"type":"event","t":3.0,"what":"joined","detail":"","node":"a.0","planned_t":null}\n'
    run.events.write_text(event)
    assert state() == ("unfinished", 3.0)
    run.events.write_text(event + '{"type":"over","t":4.0,"reason":"time","finished":2,"failed":0}\n')
    assert state() == ("finished", 4.0)
    record_of(run).parent.mkdir()
    dead = ProcessRecord("control", 2**22 - 1, 1)
    record_of(run).write_bytes(msgspec.json.encode(Recorded("/nowhere", [dead])))
    assert state() == ("left behind", 4.0)


@pytest.mark.parametrize(
    ("reason", "failed", "expected"),
    [
        ("finished", 0, "finished"),
        ("accuracy", 0, "finished"),
        ("failed", 1, "failed"),
        ("time", 1, "failed"),
        ("interrupted", 0, "interrupted"),
    ],
)
def test_how_it_ended(run: RunDirectory, reason: str, failed: int, expected: str) -> None:
    why = '{"type":"event","t":3.0,"what":"failed","detail":"waits in vain","node":"a.1","planned_t":null}\n'
    over = f'{{"type":"over","t":4.0,"reason":"{reason}","finished":0,"failed":{failed}}}\n'
    run.events.write_text((why if failed else "") + over)
    sent = Count(100, 2, 0, 1)
    for rank in range(2):
        run.node(f"a.{rank}").path.mkdir(exist_ok=True)
        records = [start(rank), round_(1.0, 0, 100), evaluation(1.0, 0, 0.5, 2.0), end(4.0, "stopped", sent=sent)]
        run.node(f"a.{rank}").journal.write_bytes(text(records))
    (row,) = json.loads(told("status", "one", "--format", "json").stdout)
    assert row["state"] == expected
    assert (row["rounds"], row["nodes"], row["done"], row["accuracy"], row["loss"]) == (1, 2, 2 - failed, 0.5, 2.0)
    assert row["bytes_sent"] == 204
    assert ("a.1 (waits in vain)" in (row["why"] or "")) == bool(failed)
    assert ("a.1 (waits in vain)" in told("status").stdout) == bool(failed)


def test_the_record_of_a_copied_run_ends_nobody(run: RunDirectory) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        record_of(run).parent.mkdir()
        Places(run, Path("testbed-none")).write_record([process_record("node a.0", sleeper.pid)])
        copied = Path("results/copied")
        shutil.copytree(run.path, copied)
        assert "left alone" in told("destroy", "copied").stderr
        assert sleeper.poll() is None
        run.path.rename("results/moved")
        assert "ended 1 node" in told("destroy", "moved").stderr
        assert sleeper.wait(10) == -9
    finally:
        sleeper.kill()
        sleeper.wait()


def test_all_runs_and_other_forms(run: RunDirectory) -> None:  # noqa: ARG001
    write_plan(create_run(Path("results"), "two"), plan_of(nodes(2)))
    rows = list(csv.reader(io.StringIO(told("status", "--format", "csv").stdout)))
    assert rows[0] == list(COLUMNS)
    assert [row[0] for row in rows[1:]] == ["one", "two"]
    assert "unfinished" in told("status", "--watch").stdout
    assert "no runs in elsewhere" in told("status", "--results", "elsewhere").stderr
    wrong = CliRunner().invoke(main, ["status", "onee"])
    assert (wrong.exit_code, "did you mean `one`?" in wrong.stderr) == (2, True)


def test_the_busiest_links_come_first_over_the_last_second(tmp_path: Path) -> None:
    lines = [
        Second(10.0, [LinkLine("a", "r", 0, bytes=999)]),
        Second(12.0, [LinkLine("a", "r", 0, bytes=250, packets=4), LinkLine("b", "r", 1, bytes=500, dropped_loss=3)]),
    ]
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
    (tmp_path / "links.jsonl").write_bytes(text + b'{"t":13.0,"lin')
    first, second = busiest(tmp_path, 10)
    assert (first.origin, first.rate_bps, first.dropped) == ("b", 2000, 3)
    assert (second.origin, second.rate_bps, second.packets_s) == ("a", 1000, 2.0)
    assert len(busiest(tmp_path, 1)) == 1
    assert busiest(tmp_path / "none", 10) == []


def test_what_has_no_processes_has_no_logs_and_nothing_to_destroy(run: RunDirectory) -> None:
    write_plan(run, plan_of(nodes(2)).model_copy(update={"runtime": "sim"}))
    logs = CliRunner().invoke(main, ["logs", "one"])
    assert logs.exit_code == 4
    assert "the run one is in virtual time" in logs.stderr
    assert "--runtime local" in logs.stderr
    unfinished = told("destroy", "one").stderr
    assert "one: a run in virtual time" in unfinished
    assert "Ctrl-C there" in unfinished
    run.events.write_text('{"type":"over","t":4.0,"reason":"time","finished":2,"failed":0}\n')
    assert told("destroy", "one").stderr == "one: nothing is left of it but its results\n"
    assert told("destroy", "--all").stderr == ""


def test_logs_name_their_node_where_there_are_several(run: RunDirectory) -> None:
    run.node("a.0").log.write_text("one\ntwo")
    run.node("a.1").log.write_text("\x1b[31mred\n")
    assert told("logs", "one", "a.0").stdout == "one\ntwo\n"
    assert told("logs", "one", "-f").stdout == "a.0  one\na.0  two\na.1  \ufffd[31mred\n"
    assert told("logs", "one", "a.*").stdout.count("a.0  ") == 2
    wrong = CliRunner().invoke(main, ["logs", "one", "b"])
    assert wrong.exit_code == 2
    run.node("a.1").log.unlink()
    assert "nothing was printed" in told("logs", "one", "a.1").stderr
