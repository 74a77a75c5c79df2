"""What all parts of a run of real processes work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.network.timeline import Timeline
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.backend import AllNodes
from testbed.runtimes.processes.engine import Engine


@dataclass(frozen=True)
class RunContext:
    """One run, once its engine and its nodes can be reached."""

    plan: RunPlan
    directory: RunDirectory
    control: Control
    log: ControlLog
    engine: Engine
    nodes: AllNodes
    timeline: Timeline
    say: Callable[[str], None] = lambda _: None
    """Tells the user of the command what to know while the run goes on."""
