"""The argument RUN of commands: a run directory, or the name of a run under results/.

Takes what was typed, gives a `RunDirectory`, its plan, ranks of nodes; reads files only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.errors import UsageProblem, did_you_mean
from testbed.rundir import RunDirectory, find_runs
from testbed.runtimes.registry import owner_of
from testbed.runtimes.runtime import LiveRun
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
    """The run at a path, or else of a name."""
    for path in (Path(given), results / given):
        if (path / "plan.json").exists() or (path / "runtime").is_dir():
            return RunDirectory(path)
    known = [run.path.name for run in all_runs(results)]
    raise UsageProblem(f"there is no run {given}", did_you_mean(given, known) or f"looked in {results} too")


def all_runs(results: Path) -> list[RunDirectory]:
    """All runs, by name; none if there are no results yet."""
    return list(find_runs(results)) if results.is_dir() else []


def live_run(run: RunDirectory) -> LiveRun:
    """The live run; raises UsageProblem if it is over, PreflightRefused if its runtime has none to attach to."""
    return owner_of(run).attach(run)


def plan_of(run: RunDirectory) -> RunPlan:
    from testbed.plan.files import read_plan

    return read_plan(run.plan, run.path)


def ranks_of(plan: RunPlan, targets: Sequence[str]) -> tuple[int, ...]:
    """Ranks of nodes given by name, by service, or by a pattern such as `ireland.*`."""
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
    """The single node of a name."""
    ranks = ranks_of(plan, [target])
    if len(ranks) != 1:
        raise UsageProblem(f"{target} is {len(ranks)} nodes", f"take one, such as {plan.nodes[ranks[0]].name}")
    return plan.nodes[ranks[0]]
