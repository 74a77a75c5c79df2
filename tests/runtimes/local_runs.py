"""Runs of real processes for tests: small, on data that needs no download."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.control.outcome import Outcome
from testbed.plan.files import write_plan
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.run import RealRun

needs_network = pytest.mark.needs_network


def locally(plan: RunPlan, engine: str = "fabric") -> RunPlan:
    """The plan of the same run with real processes."""
    return plan.model_copy(update={"runtime": "local", "engine": engine})


def run(
    plan: RunPlan, folder: Path, engine: str = "fabric", backend: LocalBackend | None = None
) -> tuple[RunDirectory, Outcome]:
    directory = create_run(folder, "run")
    plan = locally(plan, engine)
    write_plan(directory, plan)
    return directory, RealRun(plan, directory, backend or LocalBackend()).run()
