"""Gossip learning while nodes crash, come back and are paused: the others go on in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.control.outcome import Outcome
from testbed.records import End, Event, Round, Start
from testbed.rundir import RunDirectory
from tests.runtimes.sim_runs import plan_of, records, run, star
from tests.runtimes.test_sim import of_type

PERIOD_S, ROUNDS = 0.5, 24
SKIP = {"after": "2s", "then": "skip"}


def churned(folder: Path, events: str, nodes: int = 3, **more: Any) -> tuple[RunDirectory, Outcome]:
    mode = more.pop("mode", "push")
    plan = plan_of(
        star(nodes, events),
        algorithm={"name": "gossip", "mode": mode, "period": f"{PERIOD_S}s"},
        **{"overlay": {"kind": "full"}, "missing": SKIP, "stop": {"rounds": ROUNDS}, **more},
    )
    return run(plan, folder)


def rounds(directory: RunDirectory, node: str) -> list[Round]:
    return of_type(records(directory, node), Round)


@pytest.mark.parametrize("mode", ["push", "pull", "push-pull"])
def test_a_dead_neighbour_costs_a_timeout_and_nothing_else(mode: str, tmp_path: Path) -> None:
    directory, outcome = churned(tmp_path, "  - {at: 3s, node: node.1, do: crash}\n", mode=mode)
    assert (outcome.reason, outcome.failures) == ("finished", ())
    for node in ("node.0", "node.2"):
        ends = [each.t for each in rounds(directory, node)]
        np.testing.assert_allclose(np.diff(ends), PERIOD_S)
        assert len(ends) == ROUNDS
        assert sum(each.steps for each in rounds(directory, node)[10:]) > 0, "the two left go on"
        given_up = [each for each in of_type(records(directory, node), Event) if each.what == "sends-given-up"]
        assert len(given_up) <= 1


def test_what_was_given_up_counts_as_not_sent(tmp_path: Path) -> None:
    """Of two nodes, one is cut off and learns nothing meanwhile: it sends the same model again."""
    directory, _ = churned(tmp_path, "  - {at: 3s, node: node.1, do: disconnect, for: 4s}\n", nodes=2)
    found = rounds(directory, "node.1")
    dropped = min(each.round for each in found if each.dropped)
    assert sum(each.steps for each in found[7 : dropped + 2]) == 0
    assert sum(each.sent.messages for each in found[dropped + 1 : dropped + 3]) == 1
    for node in ("node.0", "node.1"):
        assert sum(each.steps for each in rounds(directory, node)[17:]) > 0


@pytest.mark.parametrize("rejoin", ["last", "fresh"])
def test_a_node_that_comes_back_gossips_again(rejoin: str, tmp_path: Path) -> None:
    directory, outcome = churned(tmp_path, "  - {at: 3.1s, node: node.1, do: crash, rejoin: 1s}\n", rejoin=rejoin)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 3, ())
    found = records(directory, "node.1")
    assert len(of_type(found, Start)) == 2
    assert not [each for each in of_type(found, Event) if each.what == "state-lost"]
    second = rounds(directory, "node.1")[-10:]
    assert sum(each.steps for each in second) > 0
    assert sum(each.sent.payload for each in second) > 0
    assert of_type(found, End)[-1].rounds == ROUNDS


def test_a_node_that_was_paused_does_not_catch_up(tmp_path: Path) -> None:
    """Its periods begin anew: no bundle of exchanges at once."""
    directory, outcome = churned(tmp_path, "  - {at: 3s, node: node.1, do: pause, for: 4s}\n")
    assert outcome.reason == "finished"
    lasted = np.diff([each.t for each in rounds(directory, "node.1")])
    assert lasted.min() > 0.99 * PERIOD_S
    assert 4 < lasted.max() < 4 + 1.01 * PERIOD_S
    assert max(each.sent.messages for each in rounds(directory, "node.1")) == 1
