"""Folders of runs that lie beside runs.

Takes the path that `collect` was given, gives the folders that it does not look into; reads their names only.
"""

from __future__ import annotations

from pathlib import Path

from testbed.errors import UsageProblem
from testbed.rundir import find_runs


def folders_of_runs(path: Path) -> list[Path]:
    """Folders in a folder of runs that are no runs, but hold some themselves; none of a run's own folders."""
    if any(run.path == path for run in find_runs(path)):
        return []
    runs = {run.path for run in find_runs(path)}
    return [entry for entry in sorted(path.iterdir()) if entry not in runs and entry.is_dir() and _holds_runs(entry)]


def _holds_runs(folder: Path) -> bool:
    try:
        return any(True for _run in find_runs(folder))
    except (UsageProblem, OSError):
        return False
