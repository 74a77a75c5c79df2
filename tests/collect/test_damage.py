"""Whatever a crash leaves, and whatever else lies there: reported, never fatal, and the rest is summarised."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed import records
from testbed.collect import json_lines, partial_records
from testbed.collect.details import node_rows, round_rows
from testbed.collect.grouping import settings_of
from testbed.collect.run import RunResult, collect_run
from testbed.collect.summary import NodeCounts, RunSummary, summarise
from testbed.records import SCHEMA, Average, Count, Over
from testbed.rundir import RunDirectory
from tests.collect.runs import end, evaluation, plan, round_, start, text, write
from tests.examples import examples

JOURNAL = text(
    [
        start(0),
        round_(1.0, 0, 100),
        evaluation(1.0, 0, 0.5),
        records.Event(1.5, "peer-missing", "n.1"),
        round_(2.0, 1, 100),
        end(3.0, sent=Count(200, 4, 0, 2), received=Count(400, 6, 0, 2)),
    ]
)
MANY = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return write(tmp_path, {"n.0": JOURNAL}, plan(1))


def collected(run: RunDirectory, journal: bytes | None = None) -> tuple[RunResult, RunSummary]:
    """Everything that can be asked of a run, and that the JSON of it can be written."""
    if journal is not None:
        run.node("n.0").journal.write_bytes(journal)
    result = collect_run(run)
    summary = summarise(result, 0.5)
    json.dumps(asdict(summary), allow_nan=False)
    json.dumps([asdict(row) for row in node_rows(result)], allow_nan=False)
    json.dumps([asdict(row) for row in round_rows(result)], allow_nan=False)
    settings_of(run)
    return result, summary


def test_nothing_is_wrong_with_it_to_begin_with(run: RunDirectory) -> None:
    assert collected(run)[1].problems == ()


@pytest.mark.slow
def test_cut_anywhere(run: RunDirectory) -> None:
    for length in range(len(JOURNAL) + 1):
        _result, summary = collected(run, JOURNAL[:length])
        # A line is whole from its last brace on: the newline adds nothing.
        rest, whole = JOURNAL[:length], list[bytes]()
        for line in JOURNAL.splitlines():
            if not rest.startswith(line):
                break
            whole.append(line)
            rest = rest[len(line) + 1 :]
        rounds = sum(line.startswith(b'{"type":"round"') for line in whole)
        assert any("torn" in problem for problem in summary.problems) == bool(rest)
        assert summary.complete == (len(whole) == 6)
        assert summary.rounds == (rounds if whole else None)
        assert summary.bytes.payload_sent == (100 * rounds if whole else None)


@MANY
@given(st.integers(0, len(JOURNAL) - 1), st.integers(0, 255))
def test_any_byte_may_be_another(run: RunDirectory, position: int, value: int) -> None:
    spoilt = bytearray(JOURNAL)
    spoilt[position] = value
    collected(run, bytes(spoilt))


@MANY
@given(st.binary(max_size=300))
def test_garbage(run: RunDirectory, garbage: bytes) -> None:
    for journal in (garbage, JOURNAL + garbage, garbage + b"\n" + JOURNAL):
        collected(run, journal)
    run.events.write_bytes(garbage)
    run.plan.write_bytes(garbage)
    _result, summary = collected(run, JOURNAL)
    assert not summary.complete
    assert summary.bytes.payload_sent == 200
    run.events.unlink()
    run.plan.write_text(json.dumps(plan(1)))


@pytest.mark.parametrize("which", range(6))
def test_a_spoilt_line_costs_only_itself(run: RunDirectory, which: int) -> None:
    pieces = JOURNAL.splitlines(keepends=True)
    pieces[which] = pieces[which][:40] + b"\n"
    result, summary = collected(run, b"".join(pieces))
    assert f"nodes/n.0/journal.jsonl: 1 line skipped, no record: {which + 1}" in summary.problems
    assert not summary.complete
    (journal,) = result.journals
    assert len(journal.rounds.t) == 2 - (which in (1, 4))
    assert len(journal.evaluations) == 1 - (which == 2)
    assert (journal.end is None) == (which == 5)
    assert journal.sent.payload == 200  # the end has the total, and without it both rounds are there


def test_the_first_few_spoilt_lines_are_numbered(run: RunDirectory) -> None:
    _result, summary = collected(run, JOURNAL + b"\n" + b"{\n" * 5)
    assert summary.problems == ("nodes/n.0/journal.jsonl: 5 lines skipped, no record: 8, 9, 10 and 2 more",)


def test_a_comeback_in_the_middle_of_a_torn_line_is_seen(run: RunDirectory) -> None:
    again = text([start(0, 5.0, round=1), round_(6.0, 1, 30), end(7.0, sent=Count(30))])
    result, summary = collected(run, JOURNAL[:-20] + again)
    (journal,) = result.journals
    assert journal.starts_s == (0.0, 5.0)
    assert summary.nodes == NodeCounts(1, 1, 0, 0)
    assert summary.bytes.payload_sent == 230
    assert summary.problems == ("nodes/n.0/journal.jsonl: 1 line skipped, no record: 6",)


@pytest.mark.parametrize("newer", [text([start(0, schema=SCHEMA + 1)]), b'{"type":"start","schema":99,"t":"new"}\n'])
def test_a_newer_schema_is_not_guessed_at(run: RunDirectory, newer: bytes) -> None:
    result, summary = collected(run, newer + JOURNAL.split(b"\n", 1)[1])
    assert result.journals == []
    assert "newer than 1" in summary.problems[0]
    assert summary.nodes == NodeCounts(1, 0, 0, 1)
    assert summary.bytes.payload_sent is None


def test_an_unknown_record_is_counted_and_nothing_is_missing(run: RunDirectory) -> None:
    _result, summary = collected(run, b'{"type":"weather","t":1}\n' * 2 + JOURNAL)
    assert summary.problems == ("nodes/n.0/journal.jsonl: 2 records of an unknown type skipped: weather",)
    assert summary.complete


def test_unknown_fields_are_nobodys_business(run: RunDirectory) -> None:
    _result, summary = collected(run, JOURNAL.replace(b'{"type":"round",', b'{"type":"round","mood":[{"a":1}],'))
    assert summary.problems == ()


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 500_000,
        b'{"type":"event","t":1,"what":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"type":"round","t":1e999}',
        JOURNAL.splitlines()[1].replace(b":100,", b":99999999999999999999,"),
        JOURNAL.splitlines()[1].replace(b'"t":1.0', b'"t":-1.0'),
        JOURNAL.splitlines()[2].replace(b'"accuracy":0.5', b'"accuracy":50'),
        b"\x00" * 5000,
        b"\xff\xfe" * 50,
        b'{"type":"event","t":1,"what":"\xff"}',
    ],
)
def test_lines_that_are_no_records(run: RunDirectory, line: bytes) -> None:
    _result, summary = collected(run, line + b"\n" + JOURNAL)
    assert summary.problems == ("nodes/n.0/journal.jsonl: 1 line skipped, no record: 1",)
    assert summary.bytes.payload_sent == 200


@pytest.mark.parametrize(
    "length", [json_lines.LONGEST_LINE - 1, json_lines.LONGEST_LINE, 3 * json_lines.LONGEST_LINE + 7]
)
def test_a_line_without_end_is_not_loaded(run: RunDirectory, length: int) -> None:
    _result, summary = collected(run, JOURNAL + b" " * 3 + b"x" * length + b"\n" + JOURNAL)
    assert summary.problems == ("nodes/n.0/journal.jsonl: 1 line skipped, no record: 7",)
    assert summary.bytes.payload_sent == 400
    _result, summary = collected(run, JOURNAL + b"x" * 2 * length)
    assert len(summary.problems) == 1
    assert summary.bytes.payload_sent == 200


def test_records_across_the_edges_of_the_buffer(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(map(len, JOURNAL.splitlines(keepends=True)))
    for size in range(longest, longest + 40):
        monkeypatch.setattr(json_lines, "LONGEST_LINE", size)
        _result, summary = collected(run, JOURNAL * 3)
        assert summary.problems == ()
        assert summary.bytes.payload_sent == 600
    monkeypatch.setattr(json_lines, "LONGEST_LINE", longest - 1)
    assert len(collected(run, JOURNAL)[1].problems) >= 1


def test_a_file_too_large_is_not_loaded(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "LARGEST_FILE", len(JOURNAL) - 1)
    _result, summary = collected(run)
    assert "nodes/n.0/journal.jsonl has more than" in summary.problems[0]
    assert summary.nodes.missing == 1


def test_an_empty_journal(run: RunDirectory) -> None:
    _result, summary = collected(run, b"")
    assert summary.problems[0] == "nodes/n.0/journal.jsonl is empty"
    assert summary.nodes == NodeCounts(1, 0, 0, 1)
    assert (summary.wall_clock_s, summary.rounds, summary.bytes.payload_sent) == (None, None, None)


def test_missing_nodes(tmp_path: Path) -> None:
    run = write(tmp_path, {"n.0": JOURNAL, "n.7": JOURNAL}, plan(6))
    run.node("n.1").path.mkdir()
    _result, summary = collected(run)
    assert summary.nodes == NodeCounts(6, 1, 0, 5)
    assert set(summary.problems) == {
        "1 node in nodes/ not of the plan, left out: n.7",
        "5 nodes left no journal that can be read: n.1, n.2, n.3 and 2 more",
    }


def test_a_journal_that_is_no_file(run: RunDirectory) -> None:
    run.node("n.0").journal.unlink()
    os.mkfifo(run.node("n.0").journal)
    result = collect_run(run)
    assert result.problems[0].text == "nodes/n.0/journal.jsonl is not a file"
    run.node("n.0").journal.unlink()
    run.node("n.0").journal.symlink_to(run.plan.absolute())  # or any file of the collecting user
    assert collect_run(run).problems[0].text == "nodes/n.0/journal.jsonl is a link, which is not followed"


@pytest.mark.parametrize("name", ["summary.json", "engine/health.json", "events.jsonl", "plan.json"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder"])
def test_no_planted_file_is_waited_for_or_read_without_end(run: RunDirectory, name: str, kind: str) -> None:
    planted = run.path / name
    planted.parent.mkdir(exist_ok=True)
    planted.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(planted)
    elif kind == "endless":
        planted.symlink_to("/dev/zero")
    else:
        planted.mkdir()
    _result, summary = collected(run)
    assert summary.nodes.finished == 1
    if name in ("events.jsonl", "plan.json"):
        assert any(each.startswith(name) for each in summary.problems)


def test_a_folder_of_nodes_that_is_a_link_is_not_looked_into(run: RunDirectory, tmp_path: Path) -> None:
    run.nodes.rename(tmp_path / "elsewhere")
    run.nodes.symlink_to(tmp_path / "elsewhere")
    _result, summary = collected(run)
    assert (summary.nodes.finished, summary.bytes.payload_sent) == (0, None)


def test_no_plan(run: RunDirectory) -> None:
    run.plan.unlink()
    _result, summary = collected(run)
    assert summary.nodes == NodeCounts(None, 1, 0, 0)
    assert (summary.run_id, summary.algorithm, summary.health) == ("run", None, "unknown")
    assert summary.bytes.payload_sent == 200
    assert summary.problems == ("plan.json is missing: which nodes should be here is unknown",)
    assert not summary.complete


def test_a_plan_with_a_wrong_part_still_tells_the_others(run: RunDirectory) -> None:
    run.plan.write_text(json.dumps(plan(1) | {"seed": "one", "runtime": None}))
    _result, summary = collected(run)
    assert (summary.seed, summary.runtime, summary.algorithm) == (None, None, "dpsgd")
    assert len(summary.problems) == 2
    assert summary.complete


@pytest.mark.parametrize("name", ["../../../etc", "/etc", "a/../n.0", "", ".", "\0"])
def test_a_plans_names_lead_nowhere(run: RunDirectory, name: str) -> None:
    (run.path / "journal.jsonl").write_bytes(JOURNAL)
    run.plan.write_text(json.dumps(plan(0) | {"nodes": [{"name": name}]}))
    result, summary = collected(run)
    assert result.journals == []
    assert summary.nodes.missing == 1


def test_nodes_that_is_a_file(tmp_path: Path) -> None:
    run = write(tmp_path, {}, plan(2))
    run.nodes.rmdir()
    run.nodes.write_text("")
    assert collected(run)[1].nodes == NodeCounts(2, 0, 0, 2)


def test_a_torn_log_of_controls(run: RunDirectory) -> None:
    log = text([Average(1.0, 0, 1, 0.5, 1.0, 2.0), Average(2.0, 1, 1, 0.75, 1.0, 1.0)])
    run.events.write_bytes(log[:-5])
    _result, summary = collected(run)
    assert summary.averaged_model.accuracy == 0.5
    torn, silent = summary.problems
    assert torn == "events.jsonl: last line torn, skipped: 2"
    assert silent.startswith("control's log does not say how the run ended")
    assert not summary.complete


def test_numbers_that_json_cannot_hold_were_written_as_null(run: RunDirectory) -> None:
    nan = float("nan")
    journal = text([start(0), round_(1.0, 0, 1, loss=nan), evaluation(1.0, 0, nan, nan), end(1.0)])
    run.events.write_bytes(text([Average(1.0, 0, 1, nan, nan, nan), Over(1.0, "finished", 1, 0)]))
    _result, summary = collected(run, journal)
    assert summary.problems == ()
    assert (summary.accuracy.mean, summary.loss.mean, summary.consensus_distance) == (None, None, None)


@pytest.mark.parametrize("name", ["Start", "Round", "Evaluation", "Event", "End", "Average", "Over"])
def test_what_is_wanted_is_in_the_contract(name: str) -> None:
    """A field that the contract does not have would always be its default."""
    mine, contract = (
        msgspec.structs.fields(getattr(partial_records, name)),
        msgspec.structs.fields(getattr(records, name)),
    )
    assert {field.name for field in mine} <= {field.name for field in contract}
    assert getattr(partial_records, name).__struct_config__.tag == getattr(records, name).__struct_config__.tag


@pytest.mark.parametrize("name", ["Count", "Phases", "Failure"])
def test_parts_are_as_in_the_contract(name: str) -> None:
    mine, contract = (
        msgspec.structs.fields(getattr(partial_records, name)),
        msgspec.structs.fields(getattr(records, name)),
    )
    assert [field.name for field in mine] == [field.name for field in contract]


def test_all_types_of_the_contract_are_known() -> None:
    tags = {each.__struct_config__.tag for each in get_args(records.AnyRecord)}
    assert tags == partial_records.JOURNAL_TYPES | partial_records.CONTROL_TYPES
