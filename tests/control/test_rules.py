"""The rules of a run: facts in, decisions out, with neither clock nor socket."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.control.outcome import ACCURACY, FAILED, FINISHED, INTERRUPTED, TIME
from testbed.control.rules import LEFT, STOPPED, Remaining, RunRules, node_reason, remaining
from testbed.control.stall import failures_in_vain
from testbed.records import Evaluation, Failure
from tests.runtimes.sim_runs import plan_of, star


def rules(nodes: int = 3, **settings: Any) -> RunRules:
    return RunRules(plan_of(star(nodes), **settings))


@pytest.mark.parametrize(
    ("reasons", "stays", "is_hurried"),
    [
        ([TIME], TIME, False),
        ([ACCURACY, TIME], ACCURACY, False),
        ([FAILED, TIME], FAILED, True),
        ([TIME, FAILED], TIME, False),
        ([TIME, INTERRUPTED], INTERRUPTED, True),
        ([FAILED, INTERRUPTED], FAILED, True),
        ([INTERRUPTED, TIME], INTERRUPTED, True),
    ],
)
def test_the_first_reason_stays_but_an_interruption_does_not_wait(
    reasons: list[str], stays: str, *, is_hurried: bool
) -> None:
    made = rules()
    assert (made.is_ending, made.reason) == (False, FINISHED)
    for reason in reasons:
        made.stop(reason)
    assert (made.is_ending, made.reason, made.is_hurried) == (True, stays, is_hurried)


def test_nodes_are_told_to_stop_whatever_ends_the_run_unless_it_is_interrupted() -> None:
    assert [node_reason(each) for each in (TIME, ACCURACY, FAILED, INTERRUPTED)] == [STOPPED] * 3 + [INTERRUPTED]


def test_what_remains_to_be_done() -> None:
    assert remaining([0, 1], [1], is_any_coming=False) is Remaining.WORK
    assert remaining([0, 1], [0, 1], is_any_coming=False) is Remaining.SERVING
    assert remaining([0, 1], [0, 1], is_any_coming=True) is Remaining.WORK
    assert remaining([], [0, 1], is_any_coming=True) is Remaining.WORK
    assert remaining([], [0, 1], is_any_coming=False) is Remaining.NOTHING


def test_what_counts_as_finished_and_which_learners_averages_wait_for() -> None:
    made = rules(6)
    for rank, reason in enumerate([FINISHED, STOPPED, LEFT, INTERRUPTED]):
        made.ended(rank, reason)
    made.failed(4, Failure("it is bad"))
    made.ended(4, STOPPED)  # what it said before decides
    made.died_as_planned(5)
    assert made.staying([]) == [0, 1]
    assert made.staying([5]) == [0, 1, 5]
    assert [made.may_join(rank) for rank in range(6)] == [False, True, True, True, True, True]
    assert (made.over(1.0).finished, made.over(1.0).failed) == (4, 1)
    made.life_begins(0)
    assert made.over(1.0).finished == 3
    assert made.may_join(0)


def test_nodes_that_something_broken_ends_have_not_finished() -> None:
    made = rules()
    made.ended(0, FINISHED)
    made.ended(1, STOPPED)
    assert made.broke("the fabric is gone", [1, 2])
    assert not made.broke("the fabric is gone", [1, 2])
    assert not made.has_averages_at_the_end
    assert (made.outcome(1.0, has_begun=True).finished, made.outcome(1.0, has_begun=True).broken) == (
        1,
        ("the fabric is gone",),
    )


def test_a_killed_node_counts_unless_the_end_of_the_run_has_killed_it() -> None:
    made = rules()
    made.died_as_planned(0)
    made.stop(FAILED)
    made.died_as_planned(1)
    assert made.over(1.0).finished == 1


def scored(accuracy: float) -> Evaluation:
    return Evaluation(t=1.0, round=1, accuracy=accuracy, loss=1.0, samples=10, on="test")


def test_accuracy_is_reached_when_all_at_work_have_told_theirs_and_the_mean_is_good() -> None:
    made = rules(2, stop={"accuracy": 0.5}, evaluation={"every": 1, "samples": 10})
    made.recorded(0, scored(0.8))
    assert not made.is_accurate_enough([0, 1])
    made.recorded(1, scored(0.1))
    assert not made.is_accurate_enough([0, 1])
    made.recorded(1, scored(0.2))
    assert made.is_accurate_enough([0, 1])
    assert not rules(2).is_accurate_enough([])


def test_a_node_that_joins_begins_with_what_it_may_and_with_a_round_of_the_others() -> None:
    made = rules(2, rejoin="last")
    assert made.next_life(has_lived=False) == ("fresh", 0)
    assert made.next_life(has_lived=True) == ("last", 0)


@pytest.mark.parametrize(("then", "hint"), [("wait", "; `missing.then: skip` goes on without"), ("skip", "")])
def test_the_failures_of_a_stalled_run_say_what_nodes_wait_for_if_that_is_known(then: str, hint: str) -> None:
    plan = plan_of(star(3), missing={"then": then, "after": "1s"})
    said = failures_in_vain(plan, [1], {1: "node.2 in round 3", 7: "old news"}, "nothing happens")
    assert {rank: each.message for rank, each in said.items()} == {
        1: f"waits for node.2 in round 3, in vain: nothing happens{hint}"
    }
    told = failures_in_vain(plan, [0, 2], {}, "nothing happens")
    assert {rank: each.message for rank, each in told.items()} == dict.fromkeys(
        (0, 2), "waits for a message that will never come, in vain: nothing happens"
    )
