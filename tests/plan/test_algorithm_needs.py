"""What an algorithm asks of its experiment: its sharing, its neighbours, its outbox."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.catalogue.algorithm_facts import AlgorithmFacts, OutboxFacts
from testbed.catalogue.algorithms import ALGORITHMS
from testbed.errors import InvalidInput
from testbed.experiment.read import load_experiment
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from tests.plan.test_make import nodes, plan_of, problems


def with_facts(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> AlgorithmFacts:
    """D-PSGD with other facts."""
    changed = replace(ALGORITHMS["dpsgd"], **facts)
    for module in ("outbox", "algorithm_needs"):
        monkeypatch.setattr(f"testbed.plan.{module}.ALGORITHMS", {"dpsgd": changed})
    return changed


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gradients_are_sent_whole_or_not_at_all(mode: str) -> None:
    told = "sharing: sharing.name: parameter-server cannot use `topk`: it shares `full` only / "
    told += "use `full`, or another algorithm"
    chosen = {"name": "parameter-server", "mode": mode}
    assert problems(4, algorithm=chosen, sharing="topk") == [told]
    assert problems(4, algorithm=chosen, sharing="mine.py:Mine") == [told.replace("topk", "mine.py:Mine")]
    assert plan_of(4, algorithm=chosen).experiment.sharing.name == "full"
    assert plan_of(4, algorithm="fedavg", sharing="mine.py:Mine").experiment.sharing.name == "mine.py:Mine"


def test_the_finding_is_at_the_sharings_line(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("topology: topologies/wan16.xml\nalgorithm: parameter-server\nsharing:\n  name: topk\n")
    loaded = load_experiment(file)
    with pytest.raises(InvalidInput) as caught:
        make_plan(loaded.require(), nodes(4), run_id="r", source=loaded.origin)
    assert [(each.where.line, each.where.column) for each in caught.value.findings if each.where] == [(4, 9)]


def test_neighbours_that_must_be_mutual_or_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_of(6, overlay="ring").overlay.kind == "ring"
    monkeypatch.setattr("testbed.plan.algorithm_needs.DIRECTED", frozenset({"ring"}))
    one_way = "overlay: overlay.kind: dpsgd needs neighbours that have each other, and those of `ring` do not / "
    assert problems(6, overlay="ring") == [one_way + "choose another overlay, or another algorithm"]
    assert plan_of(6, overlay="full").overlay.kind == "full"
    with_facts(monkeypatch, mutual=False, same_neighbours=True)
    assert plan_of(6, overlay="ring").overlay.kind == "ring"
    changing = "overlay: overlay.dynamic: dpsgd remembers something of each neighbour, and here they are others in "
    changing += "every round / choose an overlay that stays the same, or another algorithm"
    assert problems(6, overlay={"kind": "ring", "dynamic": True}) == [changing]


@pytest.mark.parametrize("name", ["dpsgd", "swift", "adpsgd"])
def test_neighbours_from_views_are_one_way(name: str) -> None:
    one_way = f"overlay: overlay.kind: {name} needs neighbours that have each other, and those of `cyclon` do not / "
    assert one_way + "choose another overlay, or another algorithm" in problems(6, algorithm=name, overlay="cyclon")
    assert plan_of(6, algorithm="gossip", overlay="cyclon").overlay.kind == "cyclon"
    assert plan_of(6, algorithm="mine.py:Mine", overlay="cyclon").overlay.dynamic


def test_the_outbox_is_the_algorithms_unless_the_experiment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(plan: RunPlan) -> tuple[str | None, int | None]:
        outbox = RunPlan.model_validate(plan.document()).experiment.outbox
        return outbox.policy, outbox.in_flight

    assert chosen(plan_of(4)) == ("fifo", None)
    with_facts(monkeypatch, outbox=OutboxFacts("flush", in_flight=2))
    assert chosen(plan_of(4)) == ("flush", 2)
    assert chosen(plan_of(4, outbox={"policy": "latest"})) == ("latest", 2)
    assert chosen(plan_of(4, outbox={"policy": "fifo", "in_flight": 5})) == ("fifo", 5)
    assert chosen(plan_of(4, algorithm="mine.py:Mine")) == ("fifo", None)


def test_a_graph_over_virtual_nodes_is_checked_before_the_run() -> None:
    chosen = {"name": "shatter", "virtual_nodes": 5, "degree": 3}
    (odd,) = problems(3, algorithm=chosen)
    assert "no graph over 15 virtual nodes has degree 3 everywhere: 15 × 3 is odd" in odd
    assert plan_of(4, algorithm=chosen).overlay.degree == 3
    assert plan_of(4, algorithm={**chosen, "degree": 10}).overlay.degree == 10, "more than there are learners"
    (many,) = problems(4, algorithm={**chosen, "degree": 20})
    assert "a degree of 20 needs more than 20 virtual nodes" in many
