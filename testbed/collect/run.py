"""A run directory, read whole: its nodes, what became of each, and everything that is wrong with it.

Takes a `RunDirectory`, gives a `RunResult`; reads the run's files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from testbed.collect.control import REGULAR, ControlLog, Death, read_control_log
from testbed.collect.journal import JournalResult, read_journal
from testbed.collect.plan_head import PlanHead, PlannedNode, read_plan_head
from testbed.collect.problems import Problem, counted, named, shortened, with_others
from testbed.rundir import RunDirectory

_AS_PLANNED = frozenset({"finished", "stopped", "left"})


class State(StrEnum):
    """What became of a node."""

    FINISHED = "finished"
    """It ended as it should: at the end of the run, by a stop rule, or because the plan made it leave or crash."""
    FAILED = "failed"
    """It ended otherwise, and somebody could say so."""
    MISSING = "missing"
    """It left nothing that can be read, or nothing says how it ended."""


@dataclass(frozen=True)
class Node:
    """One node of a run; without a journal when none could be read."""

    name: str
    rank: int | None
    learner: bool
    state: State
    journal: JournalResult | None
    death: Death | None
    """What control saw of its end since it last came back."""
    failure: str | None = None
    """Why control counts it as failed, whatever its own last word is."""

    @property
    def crashed_as_planned(self) -> bool:
        """Its end is a crash that the topology's events had foreseen."""
        if self.state is not State.FINISHED or (self.journal is not None and self.journal.end in _AS_PLANNED):
            return False
        return self.death is not None or (self.journal is not None and self.journal.end == "crashed")


@dataclass(frozen=True)
class RunResult:
    """A run as it was found; holds the columns of all its journals."""

    directory: RunDirectory
    run_id: str
    plan: PlanHead
    nodes: tuple[Node, ...]
    """By rank: those of the plan whose time came; without a plan, those that left anything."""
    log: ControlLog
    problems: tuple[Problem, ...]

    @property
    def journals(self) -> list[JournalResult]:
        """Of all nodes that left one, by rank."""
        return [node.journal for node in self.nodes if node.journal is not None]

    @property
    def learners(self) -> list[JournalResult]:
        """Of those that learn; of all, when nobody is known to."""
        return [node.journal for node in self.nodes if node.journal is not None and node.learner] or self.journals


def collect_run(run: RunDirectory) -> RunResult:
    """All that there is of a run; never fails because of what is in it, or is not."""
    plan, problems = read_plan_head(run.plan)
    log, log_problems = read_control_log(run.events)
    problems += log_problems
    try:
        present = set(run.node_names())
    except OSError as problem:
        problems.append(Problem(f"nodes cannot be listed: {problem.strerror or problem}"))
        present = set()
    if plan.nodes is None:
        planned = [PlannedNode(name) for name in sorted(present)]
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
    """What is wrong with many journals: once for all that it is true of."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, bool], list[str]] = {}

    def add(self, shown: str, problems: Sequence[Problem]) -> None:
        for each in problems:
            self._found.setdefault((each.text.removeprefix(shown), each.incomplete), []).append(shown)

    def problems(self) -> list[Problem]:
        return [Problem(_first(shown) + what, incomplete) for (what, incomplete), shown in self._found.items()]


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {counted(len(names) - 1, 'other')})"


def _node(planned: PlannedNode, journal: JournalResult | None, log: ControlLog, has_plan: bool) -> Node:
    learner, rank = planned.learner is not None if has_plan else True, planned.rank
    if journal is not None:
        learner = learner if journal.learner is None else journal.learner
        rank = journal.rank if rank is None else rank
    since = journal.starts_s[-1] if journal is not None and journal.starts_s else 0.0
    deaths, failed = log.deaths.get(planned.name, ()), log.failed.get(planned.name)
    death = deaths[-1] if deaths and deaths[-1].t >= since else None
    if failed is not None:  # a run ends with its first failure: the node has not come back since
        return Node(planned.name, rank, learner, State.FAILED, journal, death, shortened(failed.why))
    return Node(planned.name, rank, learner, _state(journal, death), journal, death)


def _state(journal: JournalResult | None, last: Death | None) -> State:
    """Its own last word counts; of one that could not say any, control's about it since it last came back."""
    end = None if journal is None else journal.end
    if end in _AS_PLANNED:
        return State.FINISHED
    if end == "crashed":  # written by whoever carries out the plan, unless control knows better
        return State.FINISHED if last is None or last.planned else State.FAILED
    if end is not None:
        return State.FAILED
    if last is not None:
        return State.FINISHED if last.planned else State.FAILED
    return State.MISSING


def _over(log: ControlLog, *, has_plan: bool) -> list[Problem]:
    """What control says of the whole run, when it did not go as it should; its silence says the same.

    Where all nodes have ended well and control was killed before its last word, nothing else tells.
    """
    problems = [Problem(f"broken: {shortened(words)}") for words in log.broken]
    problems += [Problem(f"not done: {shortened(words)}", incomplete=False) for words in log.undone]
    if log.over is None:
        if has_plan and not log.failed and not log.broken:
            problems.append(
                Problem("nobody has said how the run ended: it goes on, or was killed (testbed status tells)")
            )
    elif log.over.reason not in REGULAR:
        problems.append(Problem(f"the run ended at {log.over.t:.1f} s: {log.over.reason}"))
    elif log.over.failed > len(log.failed):
        problems.append(Problem(f"control counted {counted(log.over.failed, 'node')} that failed"))
    return problems


def _ends(nodes: list[Node]) -> list[Problem]:
    """Who is missing and who failed, in a few sentences however many they are."""
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
            if why is None and node.failure:  # others' words differ, in whom they waited for
                because.setdefault(reason, node.failure)
            failures.setdefault((reason, why or ""), []).append(node.name)
    for (reason, own), names in failures.items():
        why = own or because.get(reason, "")
        words = f"{counted(len(names), 'node')} {reason}: "
        words += f"{with_others(names)} ({shortened(why)})" if why else named(names)
        problems.append(Problem(words))
    return problems


def _failure(node: Node) -> tuple[str, str | None]:
    """How it failed, in a word, and its own words for why."""
    journal = node.journal
    said = None if journal is None else journal.end
    if said is None:
        return "died" if node.death is not None or node.failure is None else "failed", None
    if node.failure is not None and said in _AS_PLANNED:
        return "failed", None
    return said, journal.failure if journal is not None else None
