"""How far a run is, and how that is shown."""

from __future__ import annotations

import io
import sys

import pytest

from testbed.cli import progress_view as view
from testbed.cli.progress_view import in_number, in_time, progress_line, progress_view
from testbed.control.progress import Progress, ProgressTally
from testbed.records import Build, Count, End, Evaluation, Phases, Round, Start

BUILD = Build("", "", "")


def start(rank: int, round_: int = 0) -> Start:
    return Start(0.0, 1, f"a.{rank}", rank, ("learner",), rank, 1, 1, "dpsgd", 1, BUILD, round=round_)


def round_(number: int, sent: int = 10) -> Round:
    return Round(1.0, number, None, Phases(), Count(payload=sent, metadata=2, control=1, messages=1), Count())


def end(sent: int) -> End:
    return End(2.0, "finished", 1, 1, Count(payload=sent), Count())


def watch(rounds: int | None = 10, time_s: float | None = None) -> ProgressTally:
    made = ProgressTally((0, 1), rounds, time_s)
    for rank in (0, 1):
        made.recorded(rank, start(rank))
    return made


def progress(**changes: object) -> Progress:
    values = {
        "t": 725.0,
        "rounds": 1234,
        "rounds_planned": 3000,
        "time_planned_s": None,
        "nodes": 1024,
        "done": 0,
        "accuracy": 0.7371,
        "loss": 1.5,
        "bytes_sent": 123_456_789,
        **changes,
    }
    return Progress(**values)  # type: ignore[arg-type]


def test_the_slowest_living_learner_counts() -> None:
    seen = watch()
    for number in range(3):
        seen.recorded(0, round_(number))
    assert seen.look(1.0).rounds == 0
    seen.recorded(1, round_(0))
    assert (seen.look(1.0).rounds, seen.look(1.0).share) == (1, 0.1)
    seen.gone(1)
    assert (seen.look(1.0).rounds, seen.look(1.0).nodes) == (3, 1)


def test_a_node_that_comes_back_does_not_set_the_run_back() -> None:
    seen = watch()
    seen.recorded(1, round_(0))
    seen.gone(1)
    for number in range(5):
        seen.recorded(0, round_(number))
    seen.recorded(1, start(1, round_=5))
    assert seen.look(1.0).rounds == 5


def test_bytes_are_those_of_rounds_and_what_an_end_adds() -> None:
    seen = watch()
    seen.recorded(0, round_(0, sent=100))
    assert seen.look(1.0).bytes_sent == 103
    seen.recorded(0, end(sent=150))
    assert seen.look(1.0).bytes_sent == 150
    seen.recorded(0, start(0, round_=1))
    seen.recorded(0, round_(1, sent=7))
    seen.recorded(0, end(sent=10))
    assert seen.look(1.0).bytes_sent == 160


def test_scores_are_means_of_the_latest() -> None:
    seen = watch()
    for rank, accuracy in ((0, 0.1), (0, 0.5), (1, 0.7)):
        seen.recorded(rank, Evaluation(1.0, 0, accuracy, 2 * accuracy, 10, "test"))
    assert seen.look(1.0).accuracy == pytest.approx(0.6)
    assert seen.look(1.0).loss == pytest.approx(1.2)


def test_the_share_is_that_of_whatever_comes_first() -> None:
    assert progress(time_planned_s=1000.0).share == pytest.approx(0.725)
    assert progress(time_planned_s=10_000.0).share == pytest.approx(1234 / 3000)
    assert progress(rounds_planned=None).share is None
    assert progress(t=2000.0, time_planned_s=1000.0).share == 1.0


def test_the_line_fits_and_the_time_left_is_sane() -> None:
    line = progress_line(progress(rounds=750), 60.0, 180.0)
    assert line == (
        "round 750/3000 (25 %) · 1024 nodes · accuracy 0.737 · sent 123 MB · emulated 12m05s · real 1m00s · left 3m00s"
    )
    for width in (100, 80, 60, 40):
        fitting = progress_line(progress(rounds=750), 60.0, 180.0, width)
        assert len(fitting) <= width
        assert fitting.startswith("round 750/3000 (25 %)")
    assert "left 3m00s" in progress_line(progress(rounds=750), 60.0, 180.0, 60)
    assert progress_line(progress(rounds=750), 60.0, 180.0, 5) == "round 750/3000 (25 %)"
    assert "left" not in progress_line(progress(rounds=0), 60.0)
    assert "loss 1.500" in progress_line(progress(accuracy=None), 60.0)
    assert progress_line(progress(rounds_planned=None, nodes=1), 1.0).startswith("round 1234 · 1 node · ")


def test_nodes_that_are_done_are_not_gone() -> None:
    for nodes, done, words in ((4, 0, " 4 nodes "), (3, 1, " 3 nodes, 1 done "), (0, 4, " 4 nodes done ")):
        assert words in progress_line(progress(nodes=nodes, done=done), 1.0)


def test_what_is_left_is_told_from_what_was_done_and_not_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, now = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", heard)
    monkeypatch.setattr(view, "monotonic", lambda: now[0])
    with progress_view(quiet=False) as shown:
        for now[0], rounds in ((90.0, 0), (100.0, 1000), (110.0, 2000)):
            shown.tell(progress(rounds=rounds, rounds_planned=3000))
    assert [line.partition(" left ")[2] for line in heard.getvalue().splitlines()] == ["", "20.0s", "10.0s"]


def test_plain_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, now = io.StringIO(), [100.0]
    monkeypatch.setattr(sys, "stderr", heard)
    monkeypatch.setattr(view, "monotonic", lambda: now[0])
    with progress_view(quiet=False) as shown:
        shown.tell(progress(rounds=0))
        assert heard.getvalue() == ""
        for step in range(120):
            now[0] = 100.0 + step / 10
            shown.tell(progress(rounds=1 + step))
    lines = heard.getvalue().splitlines()
    assert [line.split("/")[0] for line in lines] == ["round 1", "round 51", "round 101"]


def test_slow_first_rounds_are_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, now = io.StringIO(), [100.0]
    monkeypatch.setattr(sys, "stderr", heard)
    monkeypatch.setattr(view, "monotonic", lambda: now[0])
    with progress_view(quiet=False) as shown:
        now[0] = 106.0
        shown.tell(progress(rounds=0))
    assert heard.getvalue().startswith("round 0/3000")


def test_quiet_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = io.StringIO()
    monkeypatch.setattr(sys, "stderr", heard)
    with progress_view(quiet=True) as shown:
        shown.tell(progress())
    assert heard.getvalue() == ""


def test_figures_for_people() -> None:
    assert [in_time(seconds) for seconds in (0.04, 59.94, 60, 3599, 3600, 7322)] == [
        "0.0s", "59.9s", "1m00s", "59m59s", "1h00m", "2h02m",
    ]  # fmt: skip
    assert (in_number(1, "node"), in_number(0, "node")) == ("1 node", "0 nodes")
