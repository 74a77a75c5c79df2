"""What makes a run overloaded, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from testbed.collect.health import health_word
from testbed.control.health import (
    MOST_ADDED_SHARE,
    Computing,
    Summary,
    computing_of,
    emulated,
    health_of,
    summary_of,
    why_overloaded,
    write_summary,
)
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.progress import Progress
from testbed.protocol.fabric import Lateness
from testbed.protocol.nodes import Overrun
from testbed.records import Failure
from tests.runtimes.sim_runs import plan_of, star


@pytest.mark.parametrize(
    ("engine", "overruns", "words"),
    [
        ((), {}, []),
        (("late packets",), {}, ["late packets"]),
        ((), {"a": Overrun(100, 100, 0.1, 0, 0.2)}, []),
        ((), {"a": Overrun(100, 1, 0.1, 0, 0.201)}, ["0.201 s to a's time: 2.0% of the run (limit 2%)"]),
        ((), {"a": Overrun(100, 0, 0.0, 0, 0.1), "b": Overrun(10, 9, 0.1, 0, 0.5)}, ["0.5 s to b's time: 5.0%"]),
        ((), {"a": Overrun(100, 9, 0.1, 0, 0.2), "b": Overrun(100, 9, 0.1, 0, 0.2)}, []),
        ((), {"a": Overrun(1000, 0, 0.0, 3), "b": Overrun(1000, 0, 0.0, 4)}, ["7 packets were lost"]),
    ],
)
def test_why_a_run_of_ten_seconds_is_overloaded(
    engine: tuple[str, ...], overruns: dict[str, Overrun], words: list[str]
) -> None:
    """What late computing has added to the worst node's time counts, not how often anything was late."""
    assert MOST_ADDED_SHARE == 0.02
    found = why_overloaded(engine, overruns, t=10.0)
    assert len(found) == len(words)
    assert all(word in told for word, told in zip(words, found, strict=True))


def test_a_run_that_has_not_begun_is_not_overloaded_by_computing() -> None:
    assert not why_overloaded((), {"a": Overrun(0, 0, 0.0, 0, 0.1)}, t=0.0)


def test_the_node_with_the_most_of_it_is_named() -> None:
    told = {"a": Overrun(7, 1, 0.5, 0, 0.5), "b": Overrun(3, 2, 0.4, 0, 0.8)}
    assert computing_of(told, 20.0) == Computing(10, 3, 0.5, 0.8, 0.04, "b")
    assert computing_of({"a": Overrun(7, 0, 0.0, 0)}, 20.0).node is None


def test_lateness_is_told_in_emulated_time() -> None:
    real = Lateness(1000, 0.5, 4.0, 10.0)
    assert emulated(real, 1.0) == real
    assert emulated(real, 4.0) == Lateness(1000, 0.125, 1.0, 2.5)


@pytest.mark.parametrize("why", [(), ("late packets",)])
def test_the_summary_is_what_collect_reads(why: tuple[str, ...], tmp_path: Path) -> None:
    assert health_word(tmp_path) == "unknown"
    last = Progress(3.0, 5, 10, None, 2, 2, None, None, 100)
    outcome = Outcome("failed", 3.0, 3, (NodeFailure("a.1", Failure("no")),), last, overloaded=why)
    overruns, waits = {"a": Overrun(5, 1, 0.5, 2)}, Lateness(10, 0.1, 0.2, 0.3)
    told = summary_of(plan_of(star(2)), outcome, overruns, ready_s=1.0, real_s=9.0, lateness=None, device_waits=waits)
    write_summary(tmp_path, told)
    assert health_word(tmp_path) == ("overloaded" if why else "valid")
    read = msgspec.json.decode((tmp_path / "summary.json").read_bytes(), type=Summary)
    assert (read.failed, read.why, read.tx_dropped, read.computing.late) == (("a.1",), why, 2, 1)
    assert (read.lateness, read.device_waits) == (None, waits)
    (tmp_path / "summary.json").write_text('{"health": "splendid"}')
    assert health_word(tmp_path) == "unknown"
    (tmp_path / "summary.json").write_text("{")
    assert health_word(tmp_path) == "unknown"


def test_a_run_that_broke_or_never_began_is_not_valid(tmp_path: Path) -> None:
    last = Progress(3.0, 5, 10, None, 2, 2, None, None, 100)
    whole = Outcome("finished", 3.0, 3, (), last)
    assert health_of(whole) == "valid"
    for broken in (
        replace(whole, broken=("the fabric is gone",)),
        replace(whole, broken=("the fabric is gone",), overloaded=("late packets",)),
        replace(whole, last=None),
    ):
        assert health_of(broken) == "broken"
        write_summary(tmp_path, summary_of(plan_of(star(2)), broken, {}, ready_s=None, real_s=9.0, lateness=None))
        assert health_word(tmp_path) == "broken"
