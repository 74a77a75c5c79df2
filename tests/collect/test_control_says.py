"""What control says of a run counts, whatever its nodes' own last words are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.collect.grouping import group_runs, settings_of
from testbed.collect.manual_actions import manual_actions
from testbed.collect.partial_records import Event as SeenEvent
from testbed.collect.run import collect_run
from testbed.collect.summary import NodeCounts, RunSummary, summarise
from testbed.collect.text_tables import group_table, run_table
from testbed.plan.files import write_plan
from testbed.records import Event, Over, Record
from testbed.rundir import RunDirectory
from tests.collect.runs import end, plan, round_, start, text, two_nodes, write
from tests.plan.test_make import nodes, plan_of


def told(tmp_path: Path, reason: str, control: Sequence[Record]) -> RunSummary:
    journals = {f"n.{rank}": text([start(rank), round_(1.0, 0), end(9.0, reason)]) for rank in range(2)}
    return summarise(collect_run(write(tmp_path, journals, plan(2), control)))


def test_a_run_that_the_watchdog_ended_has_failed(tmp_path: Path) -> None:
    control = [
        Event(8.0, "failed", "waits for n.1, in vain", node="n.0"),
        Event(8.0, "failed", "waits for n.0, in vain", node="n.1"),
        Over(9.0, "failed", 0, 2),
    ]
    summary = told(tmp_path, "stopped", control)
    assert summary.nodes == NodeCounts(2, 0, 2, 0)
    assert not summary.complete
    assert summary.problems == (
        "the run ended at 9.0 s: failed",
        "2 nodes failed: n.0 and 1 other (waits for n.1, in vain)",
    )


@pytest.mark.parametrize(
    ("control", "complete", "says"),
    [
        ([Over(9.0, "finished", 2, 0)], True, ()),
        ([Over(9.0, "time", 2, 0)], True, ()),
        ([Over(9.0, "interrupted", 0, 0)], False, ("the run ended at 9.0 s: interrupted",)),
        ([Over(9.0, "finished", 1, 1)], False, ("control counted 1 node that failed",)),
        ([Event(3.0, "broken", "the fabric is gone")], False, ("broken: the fabric is gone",)),
    ],
)
def test_how_it_ended(tmp_path: Path, control: list[Record], complete: bool, says: tuple[str, ...]) -> None:
    summary = told(tmp_path, "stopped", control)
    assert (summary.complete, summary.problems) == (complete, says)
    assert summary.nodes == NodeCounts(2, 2, 0, 0)


def test_a_node_without_a_journal_that_failed_is_not_missing(tmp_path: Path) -> None:
    control = [Event(0.0, "failed", "no memory", node="n.1"), Over(0.0, "failed", 0, 1)]
    summary = summarise(collect_run(write(tmp_path, {"n.0": text([start(0), end(1.0)])}, plan(2), control)))
    assert summary.nodes == NodeCounts(2, 1, 1, 0)
    assert "1 node failed: n.1 (no memory)" in summary.problems


def judged(run: RunDirectory, health: str) -> RunSummary:
    why = ["the fabric was late"] if health == "overloaded" else []
    (run.path / "summary.json").write_text(json.dumps({"schema": 1, "health": health, "why": why}))
    return summarise(collect_run(run), target=0.8)


def test_what_is_not_valid_is_said_wherever_its_numbers_are(tmp_path: Path) -> None:
    good, bad = (judged(two_nodes(tmp_path, name, runtime="local"), name) for name in ("valid", "overloaded"))
    assert (good.health, good.problems) == ("valid", ())
    assert bad.complete
    assert bad.problems == ("overloaded, so no time of it can be trusted: the fabric was late",)
    assert "health" not in run_table([good]).columns
    shown = run_table([good, bad])
    place = shown.columns.index("health")
    assert [row[place] for row in shown.rows] == ["valid", "overloaded"]
    assert "health" not in shown.least
    (group,) = group_runs([(settings_of(RunDirectory(tmp_path / each.run_id)), each) for each in (bad,)])
    assert group.not_valid == ("overloaded (overloaded)",)
    assert "times of these cannot be trusted: overloaded (overloaded)" in group_table([group], [bad]).notes


def test_a_run_whose_health_is_broken_is_not_complete(tmp_path: Path) -> None:
    """Whatever else is there: its nodes may have ended well before what they need was gone."""
    broken = judged(two_nodes(tmp_path, runtime="local"), "broken")
    assert (broken.health, broken.nodes, broken.complete) == ("broken", NodeCounts(2, 2, 0, 0), False)
    assert broken.problems[0].startswith("its health is broken")


@pytest.mark.parametrize("left", [None, '{"schema": 1, "hea'])
def test_where_nobody_has_judged_nothing_is_complete(tmp_path: Path, left: str | None) -> None:
    """Control was killed between its last word and its judgement, or the disk was full."""
    run = two_nodes(tmp_path, runtime="local")
    path = run.path / "summary.json"
    path.unlink()
    if left is not None:
        path.write_text(left)
    summary = summarise(collect_run(run))
    assert (summary.health, summary.complete) == ("unknown", False)
    assert summary.problems == ("no summary.json that can be read: whether this run was valid is unknown",)


@pytest.mark.parametrize("runtime", ["sim", "local"])
def test_a_run_without_controls_last_word_is_not_complete(tmp_path: Path, runtime: str) -> None:
    """Its nodes have ended well, and then control was killed: whether all was well is unknown."""
    run = two_nodes(tmp_path, runtime=runtime)
    assert summarise(collect_run(run)).complete
    for log in (text([Event(0.0, "joined", node="n.0")]), b""):
        run.events.write_bytes(log)
        summary = summarise(collect_run(run))
        assert (summary.nodes, summary.complete) == (NodeCounts(2, 2, 0, 0), False)
        assert (
            "control's log does not say how the run ended: it goes on, or was killed (see testbed status)"
            in summary.problems
        )
    run.events.unlink()
    assert not summarise(collect_run(run)).complete


def test_who_could_not_be_made_to_join_is_missing(tmp_path: Path) -> None:
    """The time of the one had come, the other's had not."""
    control = [
        Event(0.0, "joined", node="n.0"),
        Event(3.0, "not-done", "join n.1: no process left", planned_t=3.0),
        Event(4.0, "not-done", "nobody asked for it any more"),
        Over(9.0, "finished", 1, 0),
    ]
    run = write(tmp_path, {"n.0": text([start(0), end(9.0)])}, plan(3), control)
    summary = summarise(collect_run(run))
    assert summary.nodes == NodeCounts(2, 1, 0, 1)
    assert not summary.complete
    assert summary.problems == (
        "the run was over before 1 node joined: n.2",
        "not done: join n.1: no process left",
        "1 node left no journal that can be read: n.1",
    )
    assert summary.by_hand == ()


def test_a_run_that_was_touched_repeats_no_other(tmp_path: Path) -> None:
    runs = [two_nodes(tmp_path, name, seed=seed, runtime="local") for seed, name in enumerate("abc")]
    touched = b'{"type":"event","t":1.0,"what":"link-set","detail":"","node":null,"planned_t":0.9}\n'
    runs[1].events.write_bytes(touched + runs[1].events.read_bytes())
    summaries = [summarise(collect_run(run)) for run in runs]
    assert [each.by_hand for each in summaries] == [(), ("link-set",), ()]
    assert "by hand (link-set)" in summaries[1].problems[0]
    pairs = [(settings_of(run, each.by_hand), each) for run, each in zip(runs, summaries, strict=True)]
    assert [group.runs for group in group_runs(pairs)] == [("a", "c"), ("b",)]
    assert group_runs(pairs)[1].differs == {"by_hand": "link-set (b)"}


def test_time_scales_are_not_repetitions(tmp_path: Path) -> None:
    one, other = (two_nodes(tmp_path, name, time_scale=scale) for name, scale in (("a", 1.0), ("b", 4.0)))
    assert settings_of(one) != settings_of(other)


def test_only_the_time_tells_a_planned_action_from_one_by_hand(tmp_path: Path) -> None:
    run = write(tmp_path, {})
    write_plan(run, plan_of(nodes(2, "events: [{at: 2s, node: a.0, do: pause, for: 3s}]")))

    def seen(what: str, planned_t: float) -> SeenEvent:
        return SeenEvent(planned_t, what, "", "a.0", planned_t)

    assert manual_actions(run, [seen("pause", 2.0), seen("resume", 5.0), seen("network-changed", 1.0)]) == ()
    assert manual_actions(run, [seen("pause", 2.0), seen("resume", 4.0), seen("kill", 2.0)]) == ("resume", "kill")
    assert manual_actions(RunDirectory(tmp_path / "none"), [seen("pause", 2.0)]) == ()


def test_the_fewest_rounds_are_of_those_that_stayed(tmp_path: Path) -> None:
    journals = {
        "n.0": text([start(0), round_(1.0, 0), round_(2.0, 1), round_(3.0, 2), end(3.0)]),
        "n.1": text([start(1), round_(1.0, 0), round_(2.0, 1), end(3.0)]),
        "n.2": text([start(2), round_(1.0, 0), end(2.0, "left")]),
    }
    summary = summarise(collect_run(write(tmp_path, journals, plan(3))))
    assert (summary.rounds, summary.rounds_least) == (3, 2)
    shown = run_table([summary])
    assert shown.rows[0][shown.columns.index("rounds")] == "2 to 3"
