"""Rehearsed rounds in which only some learners work, against sums done by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.exchanges import InTurns, Sender, Sent
from testbed.plan.estimate import Estimate, estimate
from testbed.plan.model import RunPlan
from testbed.plan.rehearse_turns import Turns
from testbed.plan.round_messages import parts_of
from testbed.plan.traffic import HEADER_BYTES
from tests.plan.test_make import nodes, problems
from tests.plan.test_make import plan_of as plan_of_experiment

PARAMETERS = 100
SIZE = 4 * PARAMETERS + HEADER_BYTES
LATENCY_S = 0.4
FIRST_S = 3 * LATENCY_S
"""A message to a node that nothing has been sent to before: a handshake comes first."""


def in_turns(monkeypatch: pytest.MonkeyPatch, exchange: InTurns) -> None:
    """Makes D-PSGD an algorithm of which only some nodes work in a round."""
    sort = Sent("a model", Sender.LEARNER, 1.0, is_drawn=False, answers=False, part=1.0, shared=True)
    changed = replace(ALGORITHMS["dpsgd"], exchange=lambda _options: exchange, messages=lambda *_: (sort,))
    for module in ("catalogue.algorithms", "plan.outbox", "plan.algorithm_needs", "plan.traffic"):
        monkeypatch.setattr(f"testbed.{module}.ALGORITHMS", {"dpsgd": changed})


def plan_of(count: int, **sections: Any) -> RunPlan:
    made = plan_of_experiment(nodes(count, latency=f"{LATENCY_S / 2:g}s"), compute={"ms_per_step": 20}, **sections)
    return made.model_copy(update={"parameters": PARAMETERS})


def cost_of(monkeypatch: pytest.MonkeyPatch, exchange: InTurns, count: int = 8, **sections: Any) -> Estimate:
    in_turns(monkeypatch, exchange)
    return estimate(plan_of(count, **sections))


@pytest.mark.parametrize("meets", [0, 2])
def test_models_that_are_passed_on_one_by_one(meets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is computing, the exchange, and the way to the next learner, unless a learner is its own successor."""
    cost = cost_of(monkeypatch, InTurns(active=3, meets=meets, collected=False, to_all=False, asks=False), 40)
    assert not cost.peak_is_bound, "it was rehearsed"
    assert cost.round_s is not None
    assert cost.round_s == pytest.approx(0.1 + FIRST_S * (2 if meets else 1), rel=0.05)
    assert cost.round_bytes == pytest.approx((3 + 3 * meets) * SIZE, abs=SIZE)


def test_models_that_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = cost_of(monkeypatch, InTurns(active=5, meets=0, collected=True, to_all=False, asks=False), 40)
    assert cost.round_s == pytest.approx(0.1 + 2 * FIRST_S, rel=0.05)
    assert cost.round_bytes == pytest.approx(9 * SIZE, abs=SIZE)


def test_models_that_go_to_all_of_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = cost_of(monkeypatch, InTurns(active=5, meets=0, collected=False, to_all=True, asks=False), 40)
    assert cost.round_s == pytest.approx(0.1 + FIRST_S, rel=0.05)
    assert cost.round_bytes == pytest.approx(25 * SIZE, abs=3 * SIZE)


def test_all_of_them_work_if_there_are_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    in_turns(monkeypatch, InTurns(active=13, meets=20, collected=False, to_all=False, asks=False))
    parts = parts_of(plan_of(4))
    assert isinstance(parts, Turns)
    assert parts.active(3) == (0, 1, 2, 3)
    assert estimate(plan_of(4)).round_s == pytest.approx(0.1 + LATENCY_S, rel=0.05), "each is its own successor"
    large = plan_of(4).model_copy(update={"parameters": 100_000})
    met_all = estimate(large)
    in_turns(monkeypatch, InTurns(active=4, meets=3, collected=False, to_all=False, asks=False))
    assert estimate(large) == met_all


def test_a_slow_learner_counts_in_the_rounds_in_which_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"ms_per_step": 20, "factors": [{"nodes": "a.0", "factor": 100}]}
    in_turns(monkeypatch, InTurns(active=2, meets=0, collected=True, to_all=False, asks=False))
    plan = plan_of_experiment(nodes(40), compute=slow).model_copy(update={"parameters": PARAMETERS})
    cost = estimate(plan)
    assert cost.compute_slowest_s == pytest.approx(10)
    assert cost.round_s is not None
    assert cost.round_s < 3


def test_no_overlay_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    in_turns(monkeypatch, InTurns(active=3, meets=1, collected=False, to_all=False, asks=False))
    planned = plan_of(6).overlay
    assert (planned.kind, planned.dynamic, planned.neighbours) == ("full", True, None)
    assert len(problems(6, overlay="ring")) == 1
    assert len(problems(6, overlay={"degree": 2})) == 1
