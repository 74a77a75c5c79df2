"""Reads a run directory: its nodes, how each ended, and all problems found.

Takes a `RunDirectory`, gives a `RunResult`; reads the run's files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from testbed.collect.control import REGULAR, ControlEvents, Death, read_control_events
from testbed.collect.journal import JournalResult, read_journal
from testbed.collect.partial_records import Average
from testbed.collect.plan_head import PartialNode, PlanHead, read_plan_head
from testbed.collect.problems import Problem, counted, named, shortened, with_others
from testbed.errors import UsageProblem
from testbed.rundir import RunDirectory, find_runs

STAYED = frozenset({"finished", "stopped"})
_AS_PLANNED = frozenset({"finished", "stopped", "left"})


class State(StrEnum):
    """How a node ended."""

    FINISHED = "finished"
    """As it should: at the end of the run, by a stop rule, or because the plan made it leave or crash."""
    FAILED = "failed"
    """Otherwise, according to its journal or to control."""
    MISSING = "missing"
    """Unknown: nothing readable is left, or nothing says how it ended."""


@dataclass(frozen=True)
class NodeResult:
    """One node of a run; `journal` is None when none could be read."""

    name: str
    rank: int | None
    learner: bool
    state: State
    journal: JournalResult | None
    death: Death | None
    """Its death as seen by control, since it last came back."""
    failure: str | None = None
    """Why control counts it as failed, regardless of its own journal."""

    @property
    def crashed_as_planned(self) -> bool:
        """Whether its end is a crash that the topology's events planned."""
        if self.state is not State.FINISHED or (self.journal is not None and self.journal.end in _AS_PLANNED):
            return False
        return self.death is not None or (self.journal is not None and self.journal.end == "crashed")


@dataclass(frozen=True)
class RunResult:
    """Everything read from a run, with the columns of all its journals."""

    directory: RunDirectory
    run_id: str
    plan: PlanHead
    nodes: tuple[NodeResult, ...]
    """By rank: nodes of the plan that were due to join; without a plan, those that left files."""
    log: ControlEvents
    problems: tuple[Problem, ...]

    @property
    def journals(self) -> list[JournalResult]:
        """All journals, by rank."""
        return [node.journal for node in self.nodes if node.journal is not None]

    @property
    def learners(self) -> list[JournalResult]:
        """Journals of the learners; of all nodes when no learner is known."""
        return [node.journal for node in self.nodes if node.journal is not None and node.learner] or self.journals


def collect_run(run: RunDirectory) -> RunResult:
    """Reads all that there is of a run; damaged or missing files become problems, never exceptions."""
    plan, problems = read_plan_head(run.plan)
    log, log_problems = read_control_events(run.events)
    problems += log_problems
    try:
        present = set(run.node_names())
    except OSError as problem:
        problems.append(Problem(f"nodes cannot be listed: {problem.strerror or problem}"))
        present = set()
    if plan.nodes is None:
        planned = [PartialNode(name) for name in sorted(present)]
        if not present:
            problems.append(Problem("there are no nodes"))
    else:
        planned = list({node.name: node for node in plan.nodes}.values())
        strangers = sorted(present - {node.name for node in planned})
        if strangers:
            what = f"{counted(len(strangers), 'node')} in nodes/ not of the plan, left out: {named(strangers)}"
            problems.append(Problem(what, incomplete=False))
    early = [node.name for node in planned if node.name not in present and log.never_due(node.name)]
    if early:
        what = f"the run was over before {counted(len(early), 'node')} joined: {named(early)}"
        problems.append(Problem(what, incomplete=False))
    nodes, journals = [], _JournalProblems()
    for each in planned:
        if each.name in early:
            continue
        journal = None
        # Only names that were listed become paths: a plan's own might lead anywhere.
        if each.name in present and os.path.lexists(run.node(each.name).journal):
            shown = f"nodes/{each.name}/journal.jsonl"
            journal, found = read_journal(run.path, shown)
            journals.add(shown, found)
        nodes.append(_node(each, journal, log, plan.nodes is not None))
    nodes.sort(key=lambda node: (node.rank is None, node.rank or 0, node.name))
    problems += [*journals.problems(), *_over(log, has_plan=plan.nodes is not None), *_ends(nodes)]
    name = run.path.name or run.path.resolve().name
    return RunResult(run, plan.run_id or name, plan, tuple(nodes), log, tuple(problems))


class _JournalProblems:
    """Collects problems of journals; one that several share is reported once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bool], list[str]] = {}

    def add(self, shown: str, problems: Sequence[Problem]) -> None:
        for each in problems:
            self._found.setdefault((each.text.removeprefix(shown), each.incomplete), []).append(shown)

    def problems(self) -> list[Problem]:
        return [Problem(_first(shown) + what, incomplete) for (what, incomplete), shown in self._found.items()]


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {counted(len(names) - 1, 'other')})"


def _node(planned: PartialNode, journal: JournalResult | None, log: ControlEvents, has_plan: bool) -> NodeResult:
    learner, rank = planned.learner is not None if has_plan else True, planned.rank
    if journal is not None:
        learner = learner if journal.learner is None else journal.learner
        rank = journal.rank if rank is None else rank
    since = journal.starts_s[-1] if journal is not None and journal.starts_s else 0.0
    deaths, failed = log.deaths.get(planned.name, ()), log.failed.get(planned.name)
    death = deaths[-1] if deaths and deaths[-1].t >= since else None
    if failed is not None:  # a run ends with its first failure, so the node has not come back since
        return NodeResult(planned.name, rank, learner, State.FAILED, journal, death, shortened(failed.why))
    return NodeResult(planned.name, rank, learner, _state(journal, death), journal, death)


def _state(journal: JournalResult | None, last: Death | None) -> State:
    """From the journal's own end; without one, from control's log since the node last came back."""
    end = None if journal is None else journal.end
    if end in _AS_PLANNED:
        return State.FINISHED
    if end == "crashed":  # written by the runtime that carries out the plan, unless control says otherwise
        return State.FINISHED if last is None or last.planned else State.FAILED
    if end is not None:
        return State.FAILED
    if last is not None:
        return State.FINISHED if last.planned else State.FAILED
    return State.MISSING


def _over(log: ControlEvents, *, has_plan: bool) -> list[Problem]:
    """Problems of the whole run according to control, or that control says nothing.

    Where all nodes ended well and control was killed before its last record, nothing else shows it.
    """
    problems = [Problem(f"broken: {shortened(words)}") for words in log.broken]
    problems += [Problem(f"not done: {shortened(words)}", incomplete=False) for words in log.undone]
    if log.over is None:
        if has_plan and not log.failed and not log.broken:
            problems.append(
                Problem("control's log does not say how the run ended: it goes on, or was killed (see testbed status)")
            )
    elif log.over.reason not in REGULAR:
        problems.append(Problem(f"the run ended at {log.over.t:.1f} s: {log.over.reason}"))
    elif log.over.failed > len(log.failed):
        problems.append(Problem(f"control counted {counted(log.over.failed, 'node')} that failed"))
    return problems


def _ends(nodes: list[NodeResult]) -> list[Problem]:
    """Missing and failed nodes, in a few sentences however many they are."""
    problems = []
    absent = [node.name for node in nodes if node.state is State.MISSING and node.journal is None]
    silent = [node.name for node in nodes if node.state is State.MISSING and node.journal is not None]
    if absent:
        problems.append(Problem(f"{counted(len(absent), 'node')} left no journal that can be read: {named(absent)}"))
    if silent:
        problems.append(Problem(f"{counted(len(silent), 'node')} did not come to an end: {named(silent)}"))
    failures: dict[tuple[str, str], list[str]] = {}
    because: dict[str, str] = {}
    for node in nodes:
        if node.state is State.FAILED:
            reason, why = _failure(node)
            if why is None and node.failure:  # others' words differ, such as in the peers that they waited for
                because.setdefault(reason, node.failure)
            failures.setdefault((reason, why or ""), []).append(node.name)
    for (reason, own), names in failures.items():
        why = own or because.get(reason, "")
        words = f"{counted(len(names), 'node')} {reason}: "
        words += f"{with_others(names)} ({shortened(why)})" if why else named(names)
        problems.append(Problem(words))
    return problems


def _failure(node: NodeResult) -> tuple[str, str | None]:
    """How a node failed, in a word, and its own reason."""
    journal = node.journal
    said = None if journal is None else journal.end
    if said is None:
        return "died" if node.death is not None or node.failure is None else "failed", None
    if node.failure is not None and said in _AS_PLANNED:
        return "failed", None
    return said, journal.failure if journal is not None else None


def representative_average(result: RunResult) -> Average | None:
    """The average of models that stands for a run: the last one over all learners present at its time.

    Without such, the last one over the most nodes. The very last may be of a few nodes only, those a round ahead when
    the time was over: it cannot be compared with an average of all. One that lacks only nodes that had left can.
    """
    averages = result.log.averages[::-1]
    learners = [node for node in result.nodes if node.learner]
    of_all = (each for each in averages if each.nodes >= sum(_was_there(node, each.t) for node in learners))
    most = max((each.nodes for each in averages), default=None)
    return next(of_all, None) or next((each for each in averages if each.nodes == most), None)


def _was_there(node: NodeResult, t: float) -> bool:
    """Whether a node had begun and was not lost; one that is done still has its model."""
    journal = node.journal
    if journal is None or not journal.starts_s or journal.starts_s[0] > t:
        return False
    gone_s = journal.last_t if node.death is None else node.death.t
    return journal.end in STAYED or gone_s >= t


def folders_of_runs(path: Path) -> list[Path]:
    """Folders beside runs that hold runs themselves, which `collect` does not look into."""
    if any(run.path == path for run in find_runs(path)):
        return []
    runs = {run.path for run in find_runs(path)}
    return [entry for entry in sorted(path.iterdir()) if entry not in runs and entry.is_dir() and _holds_runs(entry)]


def _holds_runs(folder: Path) -> bool:
    try:
        return any(True for _run in find_runs(folder))
    except (UsageProblem, OSError):
        return False
