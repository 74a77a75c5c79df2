"""What parts of a run of real processes work with, for tests of single parts."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.network.timeline import Timeline
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.backend import AllNodes, Nodes
from testbed.runtimes.processes.context import RunContext
from testbed.runtimes.processes.engine import Engine


def context_of(
    plan: RunPlan, control: Control, log: ControlLog, engine: Engine, nodes: Nodes, run: Path = Path("nowhere")
) -> RunContext:
    """With as much as the part under test asks for: the nodes may be only such that things can be done to."""
    timeline = Timeline(plan.load_topology(), plan.seed)
    return RunContext(plan, RunDirectory(run), control, log, engine, cast(AllNodes, nodes), timeline)
