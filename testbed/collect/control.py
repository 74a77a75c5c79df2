"""Reads control's log of a run: averaged models, planned deaths, failures, and how the run ended.

Takes the path of an events.jsonl, gives `ControlEvents`; reads that file. A run without one has an empty log.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from testbed.collect.json_lines import LineReader
from testbed.collect.partial_records import CONTROL_TYPES, Average, ControlRecord, Event, Over
from testbed.collect.problems import Problem

REGULAR = frozenset({"finished", "time", "accuracy"})
"""Reasons of a regular end of a run."""
_FAILURES = frozenset({"failed", "refused"})
_DEATHS = frozenset({"crash", "crashed", "kill", "killed", "died"})
_NOT_DONE = "not-done"


@dataclass(frozen=True, slots=True)
class Death:
    """The death of a node that did not say goodbye."""

    t: float
    planned: bool


@dataclass(frozen=True, slots=True)
class LoggedFailure:
    """A failure of a node according to control."""

    t: float
    why: str


@dataclass(frozen=True)
class ControlEvents:
    averages: tuple[Average, ...] = ()
    """In order of time."""
    deaths: dict[str, tuple[Death, ...]] = field(default_factory=dict)
    """Deaths by node, in the log's order."""
    joined: frozenset[str] = frozenset()
    over: Over | None = None
    """How the run ended; None when control was killed, or the run goes on."""
    failed: dict[str, LoggedFailure] = field(default_factory=dict)
    """The first failure of each node that had one."""
    broken: tuple[str, ...] = ()
    """Processes needed by all nodes that died before the end."""
    done: tuple[Event, ...] = ()
    """Actions on nodes and links, by the topology's events or by hand, with their planned time."""
    undone: tuple[str, ...] = ()
    """Actions of the topology's events that could not be done: on which nodes, and why."""

    def never_due(self, node: str) -> bool:
        """Whether the run ended regularly before this node was to join."""
        if self.over is None or self.over.reason not in REGULAR or not self.joined:
            return False
        return node not in self.joined and not any(node in _named_in(what) for what in self.undone)


def _named_in(undone: str) -> list[str]:
    """The nodes of `join a.0, a.1: why not`."""
    return undone.partition(":")[0].replace(",", " ").split()


def read_control_events(path: Path) -> tuple[ControlEvents, list[Problem]]:
    if not os.path.lexists(path):
        return ControlEvents(), []
    reader = LineReader[ControlRecord](path, path.parent, path.name, msgspec.json.Decoder(ControlRecord), CONTROL_TYPES)
    averages: list[Average] = []
    deaths: dict[str, list[Death]] = defaultdict(list)
    joined: set[str] = set()
    over = None
    failed: dict[str, LoggedFailure] = {}
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
                failed.setdefault(record.node, LoggedFailure(record.t, record.detail))
            elif record.node is not None and record.what == "joined":
                joined.add(record.node)
            elif record.node is not None and _DEATHS & set(record.what.split("-")):
                deaths[record.node].append(Death(record.t, record.planned_t is not None))
            if isinstance(record, Event) and record.planned_t is not None and record.what != _NOT_DONE:
                done.append(record)
    averages.sort(key=lambda each: (each.t, each.round))
    died = {name: tuple(each) for name, each in deaths.items()}
    log = ControlEvents(
        tuple(averages), died, frozenset(joined), over, failed, tuple(broken), tuple(done), tuple(undone)
    )
    return log, reader.problems()
