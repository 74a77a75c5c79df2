"""RUN as commands take it: a run directory, or the name of a run under results/.

Takes what was typed, gives a `RunDirectory`, its plan, ranks of nodes; reads files only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.run_choice import SIM
from testbed.collect.plan_head import read_plan_head
from testbed.errors import PreflightRefused, UsageProblem, did_you_mean
from testbed.rundir import RunDirectory, find_runs
from testbed.runtimes.local.leftovers import is_alive
from testbed.runtimes.local.places import Recorded, commands_socket, read_record
from testbed.topologies.model import is_pattern

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

results_option = click.option(
    "--results",
    default="results",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where run directories are.",
)


def find_run(given: str, results: Path) -> RunDirectory:
    """A path goes before a name."""
    for path in (Path(given), results / given):
        if (path / "plan.json").exists() or (path / "runtime").is_dir():
            return RunDirectory(path)
    known = [run.path.name for run in all_runs(results)]
    raise UsageProblem(f"there is no run {given}", did_you_mean(given, known) or f"looked in {results} too")


def all_runs(results: Path) -> list[RunDirectory]:
    """By name; none where there are no results yet."""
    return list(find_runs(results)) if results.is_dir() else []


def goes_on(run: RunDirectory) -> bool:
    """Whether the process that leads it is there."""
    record = read_record(run)
    return record is not None and any(each.name == "control" and is_alive(each) for each in record.processes)


def is_virtual(run: RunDirectory) -> bool:
    """Whether it is one without processes of its own, as far as its plan can be read."""
    return read_plan_head(run.plan)[0].runtime == SIM


def live_record(run: RunDirectory) -> Recorded:
    """Raises UsageProblem for a run that does not go on, PreflightRefused for one that has no processes at all."""
    record = read_record(run)
    if record is None and is_virtual(run):
        raise PreflightRefused(
            f"the run {run.path.name} is in virtual time: its nodes are no processes, its network carries no packets",
            "deploy it with --runtime local",
        )
    if record is None or not goes_on(run):
        raise UsageProblem(f"the run {run.path.name} does not go on", "`testbed status` lists those that do")
    return record


def door_of(run: RunDirectory) -> Path:
    """Where the control of a run that goes on is reached."""
    return commands_socket(Path(live_record(run).sockets))


def plan_of(run: RunDirectory) -> RunPlan:
    from testbed.plan.files import read_plan

    return read_plan(run.plan)


def ranks_of(plan: RunPlan, targets: Sequence[str]) -> tuple[int, ...]:
    """Of nodes by name, of all nodes of a service, and of those whose name fits a pattern such as `ireland.*`."""
    ranks: dict[int, None] = {}
    for target in targets:
        found = [node.rank for node in plan.nodes if target in (node.name, node.service)]
        if not found and is_pattern(target):
            found = [node.rank for node in plan.nodes if fnmatchcase(node.name, target)]
        if not found:
            names = [node.name for node in plan.nodes] + [node.service for node in plan.nodes]
            raise UsageProblem(f"there is no node {target}", did_you_mean(target, names))
        ranks.update(dict.fromkeys(found))
    return tuple(ranks)
