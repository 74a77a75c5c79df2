"""What a run's numbers are, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from testbed.collect.details import node_rows, round_rows
from testbed.collect.run import State, collect_run
from testbed.collect.spread import Spread
from testbed.collect.summary import AveragedModel, Bytes, Evaluated, NodeCounts, summarise
from testbed.collect.text_tables import node_table, run_table
from testbed.records import Average, Count, End, Event, Failure, Over, Record
from tests.collect.runs import end, evaluation, plan, round_, start, text, two_nodes, write


def test_a_whole_run(tmp_path: Path) -> None:
    summary = summarise(collect_run(two_nodes(tmp_path)))
    assert summary.problems == ()
    assert summary.complete
    assert (summary.run_id, summary.algorithm, summary.topology) == ("run", "dpsgd", "wan")
    assert (summary.runtime, summary.engine, summary.seed, summary.health) == ("sim", "none", 1, "valid")
    assert summary.nodes == NodeCounts(2, 2, 0, 0)
    assert summary.wall_clock_s == 4.5
    assert summary.rounds == 2
    # Rounds took 1, 1 and 1.5, 3 seconds: 95 % of the way from the first to the fourth is 0.85 between 1.5 and 3.
    assert [summary.round_s.median, summary.round_s.p95] == pytest.approx([1.25, 2.775])
    assert summary.bytes == Bytes(310, 600, 8, 12, 6, 0, None, None)
    assert summary.bytes_per_node.sent == Spread(162.0, 58.0, 104.0, 220.0)
    assert list(astuple(summary.accuracy)) == pytest.approx([0.8, 0.1, 0.7, 0.9])
    assert summary.loss == Spread(1.0, 0.5, 0.5, 1.5)
    assert summary.averaged_model == AveragedModel()
    assert summary.evaluated == Evaluated(2, 1.0, 2.0)  # after every round; 1 s and 3 s lie between
    assert summary.consensus_distance is None
    assert (summary.target, summary.time_to_target_s, summary.bytes_to_target) == (None, None, None)


@pytest.mark.parametrize(
    ("target", "seconds", "size"),
    [
        # The mean is 0.4 at 1.5 s (not before: only one had a value), 0.5 at 2 s, 0.8 at 4.5 s.
        (0.0, 1.5, 102 + 52),
        (0.4, 1.5, 102 + 52),
        (0.41, 2.0, 204 + 52),
        (0.5, 2.0, 204 + 52),
        (0.8, 4.5, 220 + 104),  # with the 16 bytes that only n.0's end counts, sent by 2.5 s
        (0.81, None, None),
    ],
)
def test_time_and_bytes_to_a_target(tmp_path: Path, target: float, seconds: float | None, size: int | None) -> None:
    summary = summarise(collect_run(two_nodes(tmp_path)), target)
    assert (summary.target, summary.time_to_target_s, summary.bytes_to_target) == (target, seconds, size)
    since = {None: None, 1.5: 0.0, 2.0: 1.0, 4.5: 1.5}[seconds]
    assert summary.target_between_s == (None if since is None else (since, seconds))


def test_averages_come_from_controls_log(tmp_path: Path) -> None:
    run = two_nodes(tmp_path)
    records = [Average(2.0, 1, 2, 0.75, 1.25, 3.5), Average(4.0, 2, 2, None, None, 2.5), Over(4.5, "finished", 2, 0)]
    run.events.write_bytes(text(records))
    summary = summarise(collect_run(run))
    assert summary.averaged_model == AveragedModel(0.75, 1.25, 2, 1, 2.0)
    assert summary.consensus_distance == 2.5
    assert summary.problems == ()


def test_a_node_that_came_back_counts_both_lives(tmp_path: Path) -> None:
    records = [
        start(0),
        round_(1.0, 0, 10),
        round_(2.0, 1, 10),  # dies
        start(0, 6.0, round=1),
        round_(7.5, 1, 10),
        round_(8.0, 2, 10),
        end(9.0, sent=Count(20, 4, 0, 2), received=Count(40, 6, 0, 2)),
    ]
    result = collect_run(write(tmp_path, {"n.0": text(records)}, plan(1)))
    summary = summarise(result)
    assert summary.nodes == NodeCounts(1, 1, 0, 0)
    assert summary.rounds == 3
    assert summary.bytes.payload_sent == 40
    assert summary.bytes.metadata_received == 12
    journal = result.journals[0]
    assert journal.starts_s == (0.0, 6.0)
    assert list(journal.rounds.duration_s) == [1.0, 1.0, 1.5, 0.5]


def test_a_lost_round_is_no_long_round(tmp_path: Path) -> None:
    records = [start(0), round_(1.0, 0), round_(5.0, 2), round_(6.5, 3), end(6.5)]
    summary = summarise(collect_run(write(tmp_path, {"n.0": text(records)}, plan(1))))
    assert summary.round_s.median == 1.25
    assert summary.rounds == 3


def test_a_server_counts_its_bytes_and_not_its_time(tmp_path: Path) -> None:
    server = [start(1, learner=None), round_(9.0, 0, 7), end(99.0, sent=Count(7, 2, 0, 1))]
    learner = [start(0), round_(1.0, 0, 3), evaluation(1.0, 0, 0.25), end(2.0, sent=Count(3, 2, 0, 1))]
    nodes = [{"name": "n.0", "rank": 0, "learner": 0}, {"name": "n.1", "rank": 1, "learner": None}]
    run = write(tmp_path, {"n.0": text(learner), "n.1": text(server)}, plan(2, nodes=nodes))
    summary = summarise(collect_run(run))
    assert summary.wall_clock_s == 1.0
    assert summary.drained_s == 99.0
    assert summary.round_s.median == 1.0
    assert summary.bytes.payload_sent == 10
    assert summary.accuracy.mean == 0.25


def test_only_the_server_was_evaluated(tmp_path: Path) -> None:
    server = [start(1, learner=None), evaluation(3.0, 2, 0.5), end(4.0)]
    run = write(tmp_path, {"n.0": text([start(0), end(4.0)]), "n.1": text(server)}, plan(2))
    summary = summarise(collect_run(run), 0.5)
    assert summary.accuracy.mean == 0.5
    assert summary.time_to_target_s == 3.0


def test_the_common_test_data_comes_before_a_nodes_own(tmp_path: Path) -> None:
    records = [start(0), evaluation(1.0, 0, 0.25), evaluation(1.0, 0, 0.75, on="own-test"), end(1.0)]
    summary = summarise(collect_run(write(tmp_path, {"n.0": text(records)}, plan(1))))
    assert summary.accuracy.mean == 0.25
    other = [start(0), evaluation(1.0, 0, 0.75, on="own-test"), end(1.0)]
    summary = summarise(collect_run(write(tmp_path, {"n.0": text(other)}, plan(1), run_id="other")))
    assert summary.accuracy.mean == 0.75


def test_evaluations_are_ordered_by_their_models_time(tmp_path: Path) -> None:
    late = [start(0), end(5.0), evaluation(4.0, 3, 0.75), evaluation(2.0, 1, 0.25)]
    summary = summarise(collect_run(write(tmp_path, {"n.0": text(late)}, plan(1))), 0.25)
    assert summary.accuracy.mean == 0.75
    assert summary.time_to_target_s == 2.0
    assert summary.nodes.finished == 1


CRASH = Event(3.0, "node-crash", node="n.0", planned_t=3.0)
ACCIDENT = Event(3.0, "node-died", node="n.0")


@pytest.mark.parametrize(
    ("journal", "control", "state"),
    [
        ([start(0), end(1.0, "finished")], [], State.FINISHED),
        ([start(0), end(1.0, "stopped")], [], State.FINISHED),
        ([start(0), end(1.0, "left")], [], State.FINISHED),
        ([start(0), end(3.0, "crashed")], [], State.FINISHED),
        ([start(0), end(3.0, "crashed")], [CRASH], State.FINISHED),
        ([start(0), end(3.0, "crashed")], [ACCIDENT], State.FAILED),
        ([start(0), end(1.0, "failed")], [], State.FAILED),
        ([start(0), end(1.0, "interrupted")], [], State.FAILED),
        ([start(0), round_(2.0, 0)], [], State.MISSING),
        ([start(0), round_(2.0, 0)], [CRASH], State.FINISHED),
        ([start(0), round_(2.0, 0)], [ACCIDENT], State.FAILED),
        ([start(0), round_(2.0, 0), start(0, 4.0)], [CRASH], State.MISSING),
        ([start(0), end(3.0, "crashed"), start(0, 4.0), end(5.0)], [CRASH], State.FINISHED),
        ([start(0), end(3.0), round_(4.0, 7)], [], State.MISSING),
    ],
)
def test_what_became_of_a_node(tmp_path: Path, journal: list[Record], control: list[Record], state: State) -> None:
    result = collect_run(write(tmp_path, {"n.0": text(journal)}, plan(1), control))
    assert result.nodes[0].state is state
    assert summarise(result).complete == (state is State.FINISHED)


@pytest.mark.parametrize(
    ("journal", "control", "crashed"),
    [
        ([start(0), end(1.0)], [], 0),
        ([start(0), end(1.0, "left")], [], 0),
        ([start(0), end(3.0, "crashed")], [CRASH], 1),
        ([start(0), round_(2.0, 0)], [CRASH], 1),
        ([start(0), end(3.0, "crashed")], [ACCIDENT], 0),
        ([start(0), end(3.0, "crashed"), start(0, 4.0), end(5.0)], [CRASH], 0),
    ],
)
def test_a_crash_that_was_planned_is_counted_and_shown(
    tmp_path: Path, journal: list[Record], control: list[Record], crashed: int
) -> None:
    summary = summarise(collect_run(write(tmp_path, {"n.0": text(journal)}, plan(1), control)))
    assert summary.nodes.crashed == crashed
    assert ("crashed" in run_table([summary]).columns) == bool(crashed)


@pytest.mark.parametrize(("reason", "missing"), [("finished", 0), ("time", 0), ("interrupted", 1), ("failed", 1)])
def test_a_node_whose_time_never_came_is_not_missing(tmp_path: Path, reason: str, missing: int) -> None:
    control = [Event(0.0, "joined", node="n.0"), Over(2.0, reason, 1, 0)]
    summary = summarise(collect_run(write(tmp_path, {"n.0": text([start(0), end(2.0)])}, plan(2), control)))
    assert summary.nodes == NodeCounts(1 + missing, 1, 0, missing)
    assert summary.complete == (not missing)
    assert len(summary.problems) == 1 + missing


def test_a_node_that_joined_and_left_nothing_is_missing(tmp_path: Path) -> None:
    control = [Event(0.0, "joined", node=f"n.{rank}") for rank in range(2)]
    journal = text([start(0), end(2.0)])
    summary = summarise(
        collect_run(write(tmp_path, {"n.0": journal}, plan(2), [*control, Over(2.0, "finished", 2, 0)]))
    )
    assert summary.nodes == NodeCounts(2, 1, 0, 1)


def test_a_failure_is_told_with_its_place(tmp_path: Path) -> None:
    failed = End(1.0, "failed", 0, 0, Count(), Count(), Failure("NaN\nloss", "mine.py", 7))
    result = collect_run(write(tmp_path, {"n.0": text([start(0), failed])}, plan(1)))
    assert [problem.text for problem in result.problems] == ["1 node failed: n.0 (mine.py:7: NaN loss)"]


def test_by_node(tmp_path: Path) -> None:
    first, second = node_rows(collect_run(two_nodes(tmp_path)))
    assert (first.node, first.rank, first.state, first.end) == ("n.0", 0, "finished", "finished")
    assert (first.payload_sent, first.metadata_sent, first.control_sent, first.messages_sent) == (210, 4, 6, 2)
    assert (first.payload_received, first.messages_received) == (400, 2)
    assert (first.train_s, first.encode_s, first.wait_s, first.aggregate_s) == (0.5, 0.25, 1.0, 0.0)
    assert (first.dropped, first.expired, first.starts, first.rounds, first.steps) == (2, 4, 1, 2, 10)
    assert (second.accuracy, second.loss, second.wall_clock_s) == (0.9, 0.5, 4.5)


def test_a_missing_node_has_a_row(tmp_path: Path) -> None:
    (row,) = node_rows(collect_run(write(tmp_path, {}, plan(1))))
    assert (row.node, row.state, row.payload_sent, row.accuracy) == ("n.0", "missing", None, None)


def test_by_round(tmp_path: Path) -> None:
    zero, one = round_rows(collect_run(two_nodes(tmp_path)))
    assert (zero.round, zero.nodes, zero.first_t, zero.median_t, zero.last_t) == (0, 2, 1.0, 1.25, 1.5)
    assert (one.sent_bytes, one.received_bytes, one.round_s.median) == (154, 306, 2.0)
    assert (zero.accuracy.mean, one.accuracy.max) == (0.4, 0.9)
    assert (zero.loss.mean, zero.training_loss.mean) == (2.5, 1.0)


def test_rounds_without_any(tmp_path: Path) -> None:
    assert round_rows(collect_run(write(tmp_path, {"n.0": text([start(0), end(0.0)])}, plan(1)))) == []
    assert round_rows(collect_run(write(tmp_path, {}, plan(1), run_id="other"))) == []


def test_what_follows_the_last_round_is_no_part_of_the_work(tmp_path: Path) -> None:
    records = [start(0), round_(1.0, 0), round_(2.0, 1), evaluation(2.0, 1, 0.5), end(62.0)]
    other = [start(1), round_(3.0, 0), end(3.5)]
    result = collect_run(write(tmp_path, {"n.0": text(records), "n.1": text(other)}, plan(2)))
    summary = summarise(result)
    assert (summary.wall_clock_s, summary.drained_s) == (3.0, 62.0)
    assert [row.wall_clock_s for row in node_rows(result)] == [2.0, 3.0]
    assert [row.end_s for row in node_rows(result)] == [62.0, 3.5]


def test_work_may_end_with_an_evaluation(tmp_path: Path) -> None:
    records = [start(0), round_(1.0, 0), evaluation(1.5, 0, 0.5), end(9.0)]
    assert summarise(collect_run(write(tmp_path, {"n.0": text(records)}, plan(1)))).wall_clock_s == 1.5


def test_one_that_did_no_round_has_its_end(tmp_path: Path) -> None:
    summary = summarise(collect_run(write(tmp_path, {"n.0": text([start(0), end(2.0)])}, plan(1))))
    assert (summary.wall_clock_s, summary.drained_s) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("averages", "expected", "distance", "note"),
    [
        ([(4, 0.5, 1.0), (4, 0.6, 2.0), (1, 0.9, 0.1)], (0.6, 4, 1), 2.0, "of round 1 and 4 nodes; the last one"),
        ([(1, 0.9, 0.1), (4, 0.6, 2.0)], (0.6, 4, 1), 2.0, None),
        ([(4, 0.5, 1.0), (4, None, 2.0)], (0.5, 4, 0), 2.0, None),
        ([(4, 0.5, 1.0), (4, 0.6, 1.0), (4, 0.7, 3.0), (3, 0.8, 2.0)], (0.8, 3, 3), 2.0, None),  # one has left
        ([(4, 0.5, 1.0), (4, 0.6, 1.0), (4, 0.7, 3.0), (2, 0.8, 2.0)], (0.7, 4, 2), 3.0, "of 2 only"),
        ([(2, 0.5, 1.0), (3, 0.6, 2.0), (1, 0.7, 3.0)], (0.6, 3, 1), 2.0, "of round 1 and 3 nodes"),
    ],
)
@pytest.mark.parametrize("leaver", [end(3.5, "left"), end(3.5, "crashed"), round_(3.5, 2)])
def test_an_average_of_a_few_is_not_taken_for_one_of_all(
    tmp_path: Path,
    averages: list[tuple[int, float | None, float]],
    expected: tuple[float, int, int],
    distance: float,
    note: str | None,
    leaver: Record,
) -> None:
    ends = [end(9.0, "stopped"), end(2.5), end(9.0), leaver]  # one was done early, and is there all the same
    journals = {f"n.{rank}": text([start(rank), last]) for rank, last in enumerate(ends)}
    control = [Average(at + 1.0, at, nodes, value, None, far) for at, (nodes, value, far) in enumerate(averages)]
    summary = summarise(collect_run(write(tmp_path, journals, plan(4), control)))
    found = summary.averaged_model
    assert (found.accuracy, found.nodes, found.round) == expected
    assert summary.consensus_distance == distance
    told = [problem for problem in summary.problems if problem.startswith("averaged_model")]
    assert len(told) == (note is not None)
    assert note is None or note in told[0]


@pytest.mark.parametrize(
    ("journal", "control", "end_of", "planned", "when", "shown"),
    [
        ([start(0), end(3.0)], [], "finished", None, 3.0, "finished"),
        ([start(0), round_(2.0, 0)], [CRASH], "crashed", True, 3.0, "crashed (planned) at 3.000 s"),
        ([start(0), end(3.25, "crashed")], [CRASH], "crashed", True, 3.25, "crashed (planned) at 3.250 s"),
        ([start(0), end(3.0, "crashed")], [ACCIDENT], "crashed", False, 3.0, "crashed at 3.000 s"),
        ([start(0), round_(2.0, 0)], [ACCIDENT], "died", False, 3.0, "died at 3.000 s"),
        ([start(0), end(4.5, "left")], [], "left", True, 4.5, "left at 4.500 s"),
        ([start(0), round_(2.0, 0)], [], None, None, None, "missing"),
        ([start(0), round_(2.0, 0), start(0, 4.0), end(5.0)], [CRASH], "finished", None, 5.0, "finished"),
    ],
)
def test_how_a_node_ended_and_when(
    tmp_path: Path,
    journal: list[Record],
    control: list[Record],
    end_of: str | None,
    planned: bool | None,
    when: float | None,
    shown: str,
) -> None:
    rows = node_rows(collect_run(write(tmp_path, {"n.0": text(journal)}, plan(1), control)))
    assert (rows[0].end, rows[0].end_planned, rows[0].end_s) == (end_of, planned, when)
    assert node_table(rows).rows[0][1] == shown


def test_many_with_one_failure_are_one_line(tmp_path: Path) -> None:
    failed = End(1.0, "failed", 0, 0, Count(), Count(), Failure("x" * 900, "mine.py", 7))
    other = End(1.0, "failed", 0, 0, Count(), Count(), Failure("NaN loss"))
    journals = {f"n.{rank}": text([start(rank), failed]) for rank in range(4)}
    result = collect_run(write(tmp_path, journals | {"n.4": text([start(4), other])}, plan(5)))
    first, second = (problem.text for problem in result.problems)
    assert first.startswith("4 nodes failed: n.0 and 3 others (mine.py:7: xxx")
    assert len(first) < 220
    assert second == "1 node failed: n.4 (NaN loss)"


def test_the_same_wrong_with_many_journals_is_one_line(tmp_path: Path) -> None:
    result = collect_run(write(tmp_path, {f"n.{rank}": b"" for rank in range(4)}, plan(4)))
    assert result.problems[0].text == "nodes/n.0/journal.jsonl (and 3 others) is empty"
    assert len(result.problems) == 2


def lonely(*rounds: Record, received: int = 1) -> dict[str, bytes]:
    """Two nodes; each has received that many of the messages that were sent to it."""
    last = end(4.0, sent=Count(200, 4, 0, 2), received=Count(200 * received, 3 * received, 0, received))
    return {f"n.{rank}": text([start(rank), *rounds, last]) for rank in range(2)}


ALONE = [round_(1.0, 0, 100, aggregated=0), round_(2.0, 1, 100, aggregated=0)]


def test_messages_that_came_too_late_to_be_mixed_in_are_told(tmp_path: Path) -> None:
    summary = summarise(collect_run(write(tmp_path, lonely(*ALONE, received=0), plan(2))))
    (problem,) = summary.problems
    # Each round sends one message, drops one and gives up two; five steps take 0.25 s.
    assert problem.startswith("4 messages were sent (0 received, 12 dropped or expired) and no model was mixed in: ")
    assert "a step takes 50 ms, a round 1000 ms" in problem
    assert "compute.ms_per_step" in problem
    assert summary.complete


def test_where_messages_came_in_time_their_length_is_not_the_cause(tmp_path: Path) -> None:
    (problem,) = summarise(collect_run(write(tmp_path, lonely(*ALONE, received=2), plan(2)))).problems
    assert problem.endswith(
        "(4 received, 12 dropped or expired) and no model was mixed in: the algorithm took none of those that came"
    )


def test_one_that_was_mixed_in_is_enough(tmp_path: Path) -> None:
    journals = lonely(round_(1.0, 0, 100, aggregated=0), round_(2.0, 1, 100, aggregated=1))
    assert summarise(collect_run(write(tmp_path, journals, plan(2)))).problems == ()


def test_who_sends_no_models_has_none_to_mix_in(tmp_path: Path) -> None:
    alone = [start(0), round_(1.0, 0, 0, control=8, aggregated=0), end(1.0, sent=Count(0, 2, 8, 1))]
    journals = {"n.0": text(alone)}
    assert summarise(collect_run(write(tmp_path, journals, plan(1)))).problems == ()
