"""RUN as commands take it: a run directory, or the name of a run under results/.

Takes what was typed, gives a `RunDirectory`, its plan, ranks of nodes; reads files only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.run_choice import DOCKER, SIM
from testbed.collect.plan_head import read_plan_head
from testbed.doors import Door
from testbed.errors import PreflightRefused, UsageProblem, did_you_mean
from testbed.rundir import RunDirectory, find_runs
from testbed.runtimes.tracking.process_records import Recorded, read_record
from testbed.topologies.model import is_pattern
from testbed.topologies.unknown_node import unknown_node

if TYPE_CHECKING:
    from testbed.plan.model import PlannedNode, RunPlan

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
    """Whether what leads it is there; raises what an Engine says that has to be asked."""
    from testbed.runtimes.reach import is_led

    record = read_record(run)
    return record is not None and is_led(run, record)


def is_seen(run: RunDirectory) -> bool:
    """Whether that can be seen from here; else an Engine has to be asked."""
    record = read_record(run)
    return record is None or not record.unseen


def is_virtual(run: RunDirectory) -> bool:
    """Whether it is one without processes of its own, as far as its plan can be read."""
    return read_plan_head(run.plan)[0].runtime == SIM


def is_of_containers(run: RunDirectory) -> bool:
    """Whether an Engine runs it, as far as its plan can be read."""
    return read_plan_head(run.plan)[0].runtime == DOCKER


def live_record(run: RunDirectory) -> Recorded:
    """Raises UsageProblem for a run that does not go on, PreflightRefused for one that has no processes at all."""
    from testbed.runtimes.reach import is_led

    record = read_record(run)
    if record is None and is_virtual(run):
        raise PreflightRefused(
            f"the run {run.path.name} is in virtual time: its nodes are no processes, its network carries no packets",
            "deploy it with --runtime local",
        )
    if record is None or not is_led(run, record):
        raise UsageProblem(f"the run {run.path.name} does not go on", "`testbed status` lists those that do")
    return record


def door_of(run: RunDirectory) -> Door:
    """Where the control of a run that goes on is reached."""
    from testbed.runtimes.reach import commands_door

    return commands_door(run, live_record(run))


def plan_of(run: RunDirectory) -> RunPlan:
    from testbed.plan.files import read_plan

    return read_plan(run.plan, run.path)


def ranks_of(plan: RunPlan, targets: Sequence[str]) -> tuple[int, ...]:
    """Of nodes by name, of all nodes of a service, and of those whose name fits a pattern such as `ireland.*`."""
    ranks: dict[int, None] = {}
    for target in targets:
        found = [node.rank for node in plan.nodes if target in (node.name, node.service)]
        if not found and is_pattern(target):
            found = [node.rank for node in plan.nodes if fnmatchcase(node.name, target)]
        if not found:
            raise unknown_node(target, ((node.name, node.service) for node in plan.nodes))
        ranks.update(dict.fromkeys(found))
    return tuple(ranks)


def node_of(plan: RunPlan, target: str) -> PlannedNode:
    """The one node that is meant."""
    ranks = ranks_of(plan, [target])
    if len(ranks) != 1:
        raise UsageProblem(f"{target} is {len(ranks)} nodes", f"take one, such as {plan.nodes[ranks[0]].name}")
    return plan.nodes[ranks[0]]
