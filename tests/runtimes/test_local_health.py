"""A run is as healthy as its engine and its nodes say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.control.control import Control
from testbed.errors import ExitCode
from testbed.protocol.fabric import Lateness
from testbed.protocol.nodes import Overrun
from testbed.runtimes.processes.engine import EngineHealth, NoEngine
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, star

LATE = Lateness(1000, 0.1, 4.0, 9.0)
LOSES = """
from testbed.engines.counters import CounterReader, DeviceCounters
from testbed.node.algorithms.dpsgd import DPSGD


class Loses(DPSGD):
    async def run(self, node):
        if node.rank == 1:
            CounterReader.read = lambda _: DeviceCounters(0, 0, 0, 0, 0, 0, 0, 7)
        await super().run(node)
"""


def summary(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "run" / "summary.json").read_text())
    return found


@pytest.mark.processes
def test_what_the_engine_and_the_nodes_say_is_what_the_run_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoEngine, "health", lambda _: EngineHealth(("packets were late",), LATE))
    monkeypatch.setattr(Control, "overruns", property(lambda _: {"node.0": Overrun(1000, 600, 0.1, 5, 600.0)}))
    _, outcome = run(plan_of(star(2), stop={"rounds": 1}), tmp_path, "none")
    assert outcome.exit_code is ExitCode.NOT_AS_ASKED
    late, trained, lost = outcome.overloaded
    assert late == "packets were late"
    assert "computing that took longer than planned has added 600 s to node.0's time" in trained
    assert "5 packets were lost before the network, at node.0" in lost
    told = summary(tmp_path)
    assert (told["health"], told["why"], told["tx_dropped"]) == ("overloaded", list(outcome.overloaded), 5)


@needs_network
def test_packets_that_a_nodes_device_dropped_make_the_run_overloaded(tmp_path: Path) -> None:
    """A real device drops only what comes too fast for this machine: here the node is told so by its counters."""
    source = tmp_path / "loses.py"
    source.write_text(LOSES)
    _, outcome = run(plan_of(star(2), algorithm={"name": f"{source}:Loses"}, stop={"rounds": 3}), tmp_path)
    assert outcome.reason == "finished"
    assert any("7 packets were lost before the network, at node.1" in why for why in outcome.overloaded)
    assert summary(tmp_path)["tx_dropped"] == 7
