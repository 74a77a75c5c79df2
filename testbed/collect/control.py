"""Control's log of a run: the averaged model, which nodes were to die, which failed, and how the run ended.

Takes the path of an events.jsonl, gives a `ControlLog`; reads that file. A run without one has an empty log.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from testbed.collect.lines import LineReader
from testbed.collect.problems import Problem
from testbed.collect.wanted import CONTROL_TYPES, Average, ControlRecord, Event, Over

REGULAR = frozenset({"finished", "time", "accuracy"})
"""Why a run ends that went as it should."""
_FAILURES = frozenset({"failed", "refused"})
_DEATHS = frozenset({"crash", "crashed", "kill", "killed", "died"})
_NOT_DONE = "not-done"


@dataclass(frozen=True, slots=True)
class Death:
    """A node died without a goodbye."""

    t: float
    planned: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """Control says that a node could not go on, or that nothing would have come of it."""

    t: float
    why: str


@dataclass(frozen=True)
class ControlLog:
    averages: tuple[Average, ...] = ()
    """By time."""
    deaths: dict[str, tuple[Death, ...]] = field(default_factory=dict)
    """Of every node that died, in the log's order."""
    joined: frozenset[str] = frozenset()
    over: Over | None = None
    """How the run ended; None when control did not live to say, or the run goes on."""
    failed: dict[str, Failed] = field(default_factory=dict)
    """The first failure of every node that had one."""
    broken: tuple[str, ...] = ()
    """What all nodes need and was gone before the end, in words."""
    done: tuple[Event, ...] = ()
    """What was done to nodes and links, by the topology's events or by hand, with the time at which it was wanted."""
    undone: tuple[str, ...] = ()
    """What the topology's events wanted and could not be done: to whom, and why."""

    def never_due(self, node: str) -> bool:
        """Whether the run ended as it should before this node was to join."""
        if self.over is None or self.over.reason not in REGULAR or not self.joined:
            return False
        return node not in self.joined and not any(node in _named_in(what) for what in self.undone)


def _named_in(undone: str) -> list[str]:
    """The nodes of `join a.0, a.1: why not`."""
    return undone.partition(":")[0].replace(",", " ").split()


def read_control_log(path: Path) -> tuple[ControlLog, list[Problem]]:
    if not os.path.lexists(path):
        return ControlLog(), []
    reader = LineReader[ControlRecord](path, path.parent, path.name, msgspec.json.Decoder(ControlRecord), CONTROL_TYPES)
    averages: list[Average] = []
    deaths: dict[str, list[Death]] = defaultdict(list)
    joined: set[str] = set()
    over = None
    failed: dict[str, Failed] = {}
    broken: list[str] = []
    done: list[Event] = []
    undone: list[str] = []
    for records in reader.batches():
        for record in records:
            if isinstance(record, Average):
                averages.append(record)
            elif isinstance(record, Over):
                over = record
            elif record.what == "broken":
                broken.append(record.detail)
            elif record.what == _NOT_DONE:
                if record.planned_t is not None:
                    undone.append(record.detail)
            elif record.node is not None and record.what in _FAILURES:
                failed.setdefault(record.node, Failed(record.t, record.detail))
            elif record.node is not None and record.what == "joined":
                joined.add(record.node)
            elif record.node is not None and _DEATHS & set(record.what.split("-")):
                deaths[record.node].append(Death(record.t, record.planned_t is not None))
            if isinstance(record, Event) and record.planned_t is not None and record.what != _NOT_DONE:
                done.append(record)
    averages.sort(key=lambda each: (each.t, each.round))
    died = {name: tuple(each) for name, each in deaths.items()}
    log = ControlLog(tuple(averages), died, frozenset(joined), over, failed, tuple(broken), tuple(done), tuple(undone))
    return log, reader.problems()
