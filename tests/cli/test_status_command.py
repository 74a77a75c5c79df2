"""`testbed status` and `testbed logs` of runs that do not go on, and of one whose links are busy."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from testbed.cli.link_figures import busiest, busiest_pairs
from testbed.cli.main import main
from testbed.cli.status import COLUMNS
from testbed.control.commands import Seen
from testbed.engines.fabric.traffic_log import LinkLine, PairLine, Second
from testbed.experiment.defaults import DEFAULT_ROUNDS
from testbed.plan.files import read_plan, write_plan
from testbed.records import Count
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.tracking.ownership import MARK, new_mark
from testbed.runtimes.tracking.process_records import Places, ProcessRecord, RunRecord, process_record, record_of
from tests.collect.runs import end, evaluation, round_, start, text
from tests.plan.test_make import nodes, plan_of

OURS = new_mark()


def told(*words: str) -> Result:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 0, result.output
    return result


pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture
def run() -> RunDirectory:
    directory = create_run(Path("results"), "one")
    write_plan(directory, plan_of(nodes(2)).model_copy(update={"runtime": "local"}))
    return directory


def state(run: str = "one") -> tuple[str, float | None]:
    (row,) = json.loads(told("status", run, "--format", "json").stdout)
    return row["state"], row["t"]


def test_a_run_whose_engine_does_not_answer_is_out_of_reach(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nowhere'}")
    record_of(run).parent.mkdir(exist_ok=True)
    write_plan(run, read_plan(run.plan).model_copy(update={"runtime": "docker"}))
    for unseen, word in ((True, "out of reach"), (False, "left behind")):
        record_of(run).write_bytes(msgspec.json.encode(RunRecord("", [], unseen=unseen)))
        assert state()[0] == word


def test_what_became_of_a_run(run: RunDirectory) -> None:
    assert state() == ("unfinished", None)
    event = '{"type":"event","t":3.0,"what":"joined","detail":"","node":"a.0","planned_t":null}\n'
    run.events.write_text(event)
    assert state() == ("unfinished", 3.0)
    run.events.write_text(event + '{"type":"over","t":4.0,"reason":"time","finished":2,"failed":0}\n')
    assert state() == ("finished", 4.0)
    assert "destroy" not in told("status", "one").stdout
    record_of(run).parent.mkdir()
    dead = ProcessRecord("control", 2**22 - 1, 1)
    record_of(run).write_bytes(msgspec.json.encode(RunRecord("/nowhere", [dead])))
    assert state() == ("finished", 4.0)
    assert "`testbed destroy results/one` removes it" in told("status", "one").stdout
    run.events.write_text(event)
    assert state() == ("left behind", 3.0)
    assert "`testbed destroy results/one` removes it" in told("status", "one").stdout


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
    assert row["of"] == read_plan(run.plan).experiment.stop.rounds == DEFAULT_ROUNDS
    assert ("a.1 (waits in vain)" in (row["why"] or "")) == bool(failed)
    assert ("a.1 (waits in vain)" in told("status").stdout) == bool(failed)


def test_how_many_rounds_were_planned(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any run, also where its journals are too many to be read; nothing where its plan does not say."""
    plan = read_plan(run.plan)
    seen = []
    for rounds in (7, None):
        stop = plan.experiment.stop.model_copy(update={"rounds": rounds, "time_s": 5.0})
        write_plan(run, plan.model_copy(update={"experiment": plan.experiment.model_copy(update={"stop": stop})}))
        for most in (0, 1 << 20):
            monkeypatch.setattr("testbed.cli.status._MOST_JOURNALS_BYTES", most - 1)
            seen += [row["of"] for row in json.loads(told("status", "--format", "json").stdout)]
    assert seen == [7, 7, None, None]


@pytest.mark.processes
def test_the_record_of_a_copied_run_ends_nobody(run: RunDirectory) -> None:
    marked = os.environ | {MARK: OURS}
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=marked)
    try:
        record_of(run).parent.mkdir()
        Places(run, Path("testbed-none"), OURS).write_record([process_record("node a.0", sleeper.pid)])
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


@pytest.mark.parametrize("overloaded", [(), ("packets were late", "a stall")])
def test_the_health_of_a_run_that_goes_on_is_a_word(
    run: RunDirectory, overloaded: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one that is over; why it is so stands apart."""
    seen = Seen("training", 1.0, 3, 9, 2, 0, None, None, 10, None, None, overloaded)
    record_of(run).parent.mkdir()
    Places(run, Path("none")).write_record([process_record("control", os.getpid())])
    monkeypatch.setattr("testbed.cli.status.ask", lambda *_: seen)
    (row,) = json.loads(told("status", "one", "--format", "json").stdout)
    assert (row["state"], row["of"]) == ("training", 9)
    assert (row["health"], row["why"]) == (
        ("overloaded", "packets were late; a stall") if overloaded else ("valid", None)
    )


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_without_a_network_is_never_shown_without_a_remark(
    run: RunDirectory, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plan(run, read_plan(run.plan).model_copy(update={"engine": "none"}))
    if goes_on:
        seen = Seen("training", 1.0, 3, 9, 2, 0, None, None, 10, None, None, ("training was late",))
        record_of(run).parent.mkdir()
        Places(run, Path("none")).write_record([process_record("control", os.getpid())])
        monkeypatch.setattr("testbed.cli.status.ask", lambda *_: seen)
    (row,) = json.loads(told("status", "one", "--format", "json").stdout)
    shown = "unshaped: plain loopback (engine `none`)"
    assert row["why"] == (f"{shown}; training was late" if goes_on else shown)
    assert f"one: {shown}" in told("status").stdout


def test_all_runs_and_other_forms(run: RunDirectory) -> None:  # noqa: ARG001
    write_plan(create_run(Path("results"), "two"), plan_of(nodes(2)))
    rows = list(csv.reader(io.StringIO(told("status", "--format", "csv").stdout)))
    assert rows[0] == list(COLUMNS)
    assert [row[0] for row in rows[1:]] == ["one", "two"]
    assert "unfinished" in told("status", "--watch").stdout
    assert "no runs in elsewhere" in told("status", "--results", "elsewhere").stderr
    wrong = CliRunner().invoke(main, ["status", "onee"])
    assert (wrong.exit_code, "did you mean `one`?" in wrong.stderr) == (2, True)


def test_the_busiest_links_come_first_over_the_seconds_that_the_last_line_is_about(tmp_path: Path) -> None:
    """Nothing was written of the eighteen seconds before it, in which nothing happened."""
    lines = [
        Second(10.0, 1.0, [LinkLine("a", "r", 0, bytes=999)]),
        Second(
            30.0, 2.0, [LinkLine("a", "r", 0, bytes=250, packets=4), LinkLine("b", "r", 1, bytes=500, dropped_loss=3)]
        ),
    ]
    engine_says(tmp_path, lines)
    first, second = busiest(tmp_path, 10)
    assert (first.origin, first.rate_bps, first.dropped) == ("b", 2000, 3)
    assert (second.origin, second.rate_bps, second.packets_s) == ("a", 1000, 2.0)
    assert len(busiest(tmp_path, 1)) == 1
    assert busiest(tmp_path / "none", 10) == []


def test_the_busiest_pairs_are_those_of_the_last_line_that_has_any(tmp_path: Path) -> None:
    pairs = [PairLine(0, 1, 250, 4, queue_mean_ms=1.5), PairLine(1, 0, 500, 8, dropped_packets=3), PairLine(0, 9, 999)]
    lines = [
        Second(9.0, 1.0, [], [PairLine(0, 1, 7)], 1.0),
        Second(10.0, 1.0, [], pairs, 2.0),
        Second(11.0, 1.0, [LinkLine("a", "r", 0, bytes=999)]),
    ]
    engine_says(tmp_path, lines)
    first, second = busiest_pairs(tmp_path, 10, ["a", "b"])
    assert (first.origin, first.dest, first.rate_bps, first.dropped) == ("b", "a", 2000, 3)
    assert (second.dest, second.rate_bps, second.packets_s, second.queue_mean_ms) == ("b", 1000, 2.0, 1.5)
    assert len(busiest_pairs(tmp_path, 1, ["a", "b"])) == 1
    assert busiest_pairs(tmp_path / "none", 10, []) == []


def engine_says(folder: Path, lines: list[Second]) -> None:
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
    (folder / "links.jsonl").write_bytes(text + b'{"t":40.0,"lin')


def test_what_has_no_processes_has_no_logs_and_nothing_to_destroy(run: RunDirectory) -> None:
    write_plan(run, plan_of(nodes(2)).model_copy(update={"runtime": "sim"}))
    logs = CliRunner().invoke(main, ["logs", "one"])
    assert (logs.exit_code, logs.stdout) == (0, "")
    assert "in virtual time, what nodes print is said by the command that runs them" in logs.stderr
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


@pytest.mark.parametrize("name", ["runtime/processes.json", "events.jsonl", "summary.json", "engine/health.json"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_no_planted_file_holds_up_a_command(run: RunDirectory, name: str, kind: str) -> None:
    """Writers of a run directory: a learner, another user."""
    planted = run.path / name
    planted.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(planted)
    else:
        planted.symlink_to("/dev/zero")
    assert state() == ("unfinished", None)
    assert CliRunner().invoke(main, ["destroy", "one"]).exit_code == 0
    assert CliRunner().invoke(main, ["collect", "results/one"]).exit_code == 8
    assert CliRunner().invoke(main, ["logs", "one"]).exit_code == 0
