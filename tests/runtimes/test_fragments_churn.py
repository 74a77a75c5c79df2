"""DivShare and Mosaic while nodes crash, come back and leave: what the others lose, and what comes again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed.control.outcome import Outcome
from testbed.records import End, Round, Start
from testbed.rundir import RunDirectory
from tests.runtimes.sim_runs import plan_of, records, run, star
from tests.runtimes.test_sim import of_type

pytestmark = pytest.mark.slow

NODES = tuple(f"node.{rank}" for rank in range(5))
CRASH = "  - {at: 0.61s, node: node.2, do: crash, rejoin: 0.5s}\n"
GONE = "  - {at: 0.61s, node: node.2, do: crash}\n"
LEAVES = "  - {at: 0.61s, node: node.2, do: leave}\n"
ROUND_S = 0.1


def lived(name: str, events: str, folder: Path, **more: Any) -> tuple[RunDirectory, Outcome]:
    settings = {
        "stop": {"time": "3s"},
        "compute": {"ms_per_step": 50},
        "evaluation": {"mode": "none"},
        "missing": {"after": "300ms", "then": "skip"},
        "rejoin": "last",
        **more,
    }
    return run(plan_of(star(5, events), algorithm=name, **settings), folder)


@pytest.mark.parametrize("events", [CRASH, GONE, LEAVES], ids=["comes back", "stays away", "leaves"])
def test_with_divshare_no_round_of_another_node_is_longer(events: str, tmp_path: Path) -> None:
    directory, outcome = lived("divshare", events, tmp_path)
    assert (outcome.reason, outcome.failures) == ("time", ())
    for name in NODES[:2] + NODES[3:]:
        rounds = of_type(records(directory, name), Round)
        assert [each.t for each in rounds] == pytest.approx([ROUND_S * (1 + each.round) for each in rounds])
        assert len(rounds) in (29, 30)
        assert all(each.aggregated > 0 for each in rounds[10:]), "the others still mix"


@pytest.mark.parametrize("name", ["divshare", "mosaic"])
@pytest.mark.parametrize("rejoin", ["last", "fresh"])
def test_a_node_that_is_back_mixes_again(name: str, rejoin: str, tmp_path: Path) -> None:
    directory, outcome = lived(name, CRASH, tmp_path, rejoin=rejoin)
    assert (outcome.reason, outcome.failures) == ("time", ())
    found = records(directory, "node.2")
    starts = of_type(found, Start)
    assert [each.rejoin for each in starts] == [None, rejoin]
    again = of_type(found[found.index(starts[1]) :], Round)
    assert len(again) > 10
    assert sum(each.aggregated for each in again) > 100
    assert max(each.staleness_max for name in NODES for each in of_type(records(directory, name), Round)) < 15
    (first_life, last) = of_type(records(directory, "node.1"), Start), of_type(records(directory, "node.1"), End)
    assert (len(first_life), last[-1].reason) == (1, "stopped")


def test_with_mosaic_a_crash_costs_the_timeout_and_leaving_nothing(tmp_path: Path) -> None:
    longest = {}
    for what, events in (("never", ""), ("gone", GONE), ("leaves", LEAVES)):
        (tmp_path / what).mkdir()
        directory, outcome = lived("mosaic", events, tmp_path / what)
        assert (outcome.reason, outcome.failures) == ("time", ())
        ends = [each.t for each in of_type(records(directory, "node.0"), Round)]
        longest[what] = max(later - before for before, later in pairwise(ends))
    assert longest["leaves"] == pytest.approx(longest["never"], abs=0.05)
    assert longest["never"] + 0.2 < longest["gone"] < longest["never"] + 0.5
