"""The layout of a run directory, `results/<run-id>/`.

Takes the path of a run, gives the paths of its parts; creates folders when told to, and touches nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageProblem

PLAN = "plan.json"
OWN = frozenset({PLAN, "topology.yaml", "events.jsonl", "nodes", "engine", "runtime", "summary.json"})
"""All entries that runs make in their directories; other files belong to the user and are not removed."""


@dataclass(frozen=True)
class NodeDirectory:
    """The folder that one node writes to."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"


@dataclass(frozen=True)
class RunDirectory:
    """The shared volume of one run."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / PLAN

    @property
    def topology(self) -> Path:
        return self.path / "topology.yaml"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    def node(self, name: str) -> NodeDirectory:
        return NodeDirectory(self.nodes / name)

    def node_names(self) -> list[str]:
        """The names of nodes that have a folder."""
        if not self.nodes.is_dir() or self.nodes.is_symlink():
            return []
        return sorted(entry.name for entry in self.nodes.iterdir() if entry.is_dir() and not entry.is_symlink())


@dataclass(frozen=True)
class TakenRun(RunDirectory):
    """The directory of a run that is about to start."""

    holds: tuple[int, ...] = ()
    """Descriptors: while any process has one of these open, no other run can use the directory."""


def create_run(results: Path, run_id: str, hold: Callable[[Path], None] = lambda _: None) -> RunDirectory:
    """A new, empty run directory; an existing one is never overwritten. `hold` is called before anything is in it."""
    run = RunDirectory(results / run_id)
    try:
        run.path.mkdir(parents=True)
        hold(run.path)
        run.nodes.mkdir()
    except FileExistsError:
        raise UsageProblem(f"{run.path} exists already", "give another --run-id, or remove it") from None
    except OSError as problem:
        raise UsageProblem(f"cannot make {run.path}: {problem.strerror or problem}") from None
    return run


def find_runs(path: Path) -> Iterator[RunDirectory]:
    """The run at a path, or all runs in a folder of runs, by name."""
    if is_run(path):
        yield RunDirectory(path)
        return
    try:
        entries = sorted(path.iterdir())
    except OSError as problem:
        raise UsageProblem(f"cannot read {path}: {problem.strerror or problem}") from None
    for entry in entries:
        if is_run(entry):
            yield RunDirectory(entry)


def is_run(path: Path) -> bool:
    """Whether this is a run directory, even an unfinished one; False for folders that this user may not read."""
    try:
        return (path / PLAN).exists() or (path / "nodes").is_dir()
    except PermissionError:
        return False
