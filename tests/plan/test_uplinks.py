"""Estimates of rounds that wait for nothing, against runs, where links carry all that is sent and where they do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from testbed.catalogue.algorithm_facts import OutboxPolicy
from testbed.cli.output import Format
from testbed.cli.plan_view import print_plan
from testbed.collect.run import collect_run
from testbed.collect.summary import summarise
from testbed.plan.estimate import estimate
from testbed.plan.model import Declared, RunPlan
from testbed.plan.uplinks import Uplinks
from tests.runtimes.sim_runs import plan_of, run

PUSHES = f"{Path(__file__).parent / 'pushes.py'}:Pushes"
PARAMETERS = 2410
NETWORK = """
services:
  quick: {{replicas: 4}}
  slow: {{replicas: 2}}
bridges: [hub]
links:
  - {{from: quick, to: hub, latency: 5ms, rate: 50Mbps}}
  - {{from: slow, to: hub, latency: 5ms, up: {slow}, down: 50Mbps}}
"""
"""With a ring, a node sends 19 kB in a round of 40 ms: 3.9 Mbit/s."""


def pushing(slow: str, policy: str, **settings: Any) -> RunPlan:
    chosen: dict[str, Any] = {"outbox": {"policy": policy}, "overlay": "ring", "stop": {"rounds": 40}, **settings}
    plan = plan_of(NETWORK.format(slow=slow), algorithm=PUSHES, evaluation={"mode": "none"}, **chosen)
    declared = Declared(waits=False, sends_to="neighbours", message_bytes=None)
    return plan.model_copy(update={"parameters": PARAMETERS, "declared": declared})


@pytest.mark.parametrize("policy", ["fifo", "flush", "latest"])
@pytest.mark.parametrize("slow", ["50Mbps", "1Mbps"])
def test_a_run_takes_as_long_and_sends_as_much_as_was_said(slow: str, policy: str, tmp_path: Path) -> None:
    plan = pushing(slow, policy)
    cost = estimate(plan)
    directory, outcome = run(plan, tmp_path)
    assert outcome.reason == "finished"
    assert cost.total_s == pytest.approx(outcome.t, rel=0.1)
    assert cost.total_bytes == pytest.approx(summarise(collect_run(directory)).bytes.sent, rel=0.1)
    assert cost.round_s == pytest.approx(cost.compute_s), "no node waits"


def test_a_slow_uplink_is_told_with_what_becomes_of_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    def told(slow: str, policy: str) -> str:
        print_plan(pushing(slow, policy), Format.CSV)
        return next((line for line in capsys.readouterr().out.splitlines() if line.startswith("slow uplinks")), "")

    assert told("50Mbps", "fifo") == ""
    for policy, fate in (("fifo", "waits ever longer"), ("flush", "is dropped"), ("latest", "replace the rest")):
        line = told("1Mbps", policy)
        found = re.search("2 nodes send more than can leave; the slowest uplink carries ([0-9]+) % of what its", line)
        assert found is not None
        assert 20 <= int(found[1]) <= 25
        assert f"with `{policy}`" in line
        assert fate in line


@pytest.mark.parametrize(("policy", "kept"), [("fifo", 9 * 0.25 + 7.75 / 2), ("flush", 9 * 0.25 + 1)])
def test_by_hand(policy: OutboxPolicy, kept: float) -> None:
    """One node posts 4 s of sending in each second, half of it to nodes that are late themselves; the other one half a
    second."""
    uplinks = Uplinks(policy, {1: 1.0, 2: 1.0}, {1: 4000, 2: 500}, {1: 4.0, 2: 0.5}, {1: 0.5, 2: 0.0})
    assert (uplinks.share, uplinks.overloaded) == (0.25, 1)
    assert uplinks.total_s(10) == (10 + 4 * 7.75 / 2 if policy == "fifo" else 14.0)
    assert uplinks.total_bytes(10, None) == kept * 4000 + 10 * 500
    assert uplinks.total_bytes(None, 4.0) == uplinks.total_bytes(10, 4.0) == 4 * 1000 + 4 * 500
    quiet = Uplinks(policy, {1: 1.0}, {1: 0}, {1: 0.0}, {1: 0.0})
    assert (quiet.share, quiet.total_s(3), quiet.total_bytes(3, None)) == (1.0, 3.0, 0)
