"""A run's topology is parsed once in a process, and its timeline evaluated once; its network is expanded once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testbed.network import graph, timeline
from testbed.plan.files import read_plan, write_plan
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.run import RealRun
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun
from testbed.topologies import load
from testbed.topologies.source import Form
from tests.runtimes.local_runs import locally, needs_network
from tests.runtimes.sim_runs import plan_of, star

EVENTS = "  - {at: 300ms, node: node.1, do: leave}\n  - {at: 200ms, link: [node, hub], latency: 7ms}\n"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each is done in this process."""
    counts: Counter[str] = Counter()

    def counting(name: str, function: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **options)

        return counted

    for form, reader in load._READERS.items():
        monkeypatch.setitem(load._READERS, form, counting("parsed", reader))
    assert Form.YAML in load._READERS
    monkeypatch.setattr(timeline, "_Director", counting("evaluated", timeline._Director))
    monkeypatch.setattr(graph, "expand", counting("expanded", graph.expand))
    return counts


def written(folder: Path, plan: RunPlan) -> tuple[RunDirectory, RunPlan]:
    """A run whose plan is read from its file, as by a process that has not made it."""
    directory = create_run(folder, "run")
    write_plan(directory, plan)
    return directory, plan


def test_by_a_run_in_virtual_time(tmp_path: Path, counted: Counter[str]) -> None:
    directory, _ = written(tmp_path, plan_of(star(3, EVENTS)))
    counted.clear()
    plan = read_plan(directory.plan)
    with prepared(plan, workers=0) as shared:
        assert SimRun(plan, directory, shared).run().exit_code == 0
    assert counted == {"parsed": 1, "evaluated": 1, "expanded": 1}


def test_by_making_a_plan_and_running_it(tmp_path: Path, counted: Counter[str]) -> None:
    directory, plan = written(tmp_path, plan_of(star(3, EVENTS)))
    with prepared(plan, workers=0) as shared:
        assert SimRun(plan, directory, shared).run().exit_code == 0
    assert counted == {"parsed": 1, "evaluated": 1, "expanded": 1}


@needs_network
def test_by_control_of_a_local_run(tmp_path: Path, counted: Counter[str]) -> None:
    """What the fabric parses is its own configuration, in its own process."""
    directory, _ = written(tmp_path, locally(plan_of(star(3, EVENTS))))
    counted.clear()
    assert not RealRun(read_plan(directory.plan), directory, LocalBackend()).run().failures
    assert counted == {"parsed": 1, "evaluated": 1}
