"""A node that comes back exchanges messages within two seconds, however it went."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path

import pytest

import testbed
from testbed.control.commands import EndRun, Inject, Look, Seen, ask
from testbed.plan.model import RunPlan
from testbed.records import Event, Round, Start
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.process_records import commands_socket, read_record
from testbed.topologies.load import load
from tests.runtimes.local_runs import needs_network, run
from tests.runtimes.sim_runs import plan_of, records

pytestmark = [needs_network, pytest.mark.alone]

BACK = "node.3"
RANK = 3
WITHIN_S = 2.0
WAYS = ("crash", "kill", "leave")
_PATIENCE_S = 60.0


class Person(threading.Thread):
    """Lets a node go in every way and come back at once, each time when all four have exchanged again."""

    def __init__(self, run: RunDirectory) -> None:
        super().__init__(daemon=True)
        self._run = run
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            for number, way in enumerate(WAYS, start=1):
                self._until(partial(self._all_exchange, number))
                self._inject(way)
                if way != "leave":  # else it is still about to go when it is to come back
                    self._until(lambda: not self._lives())
                self._inject("join")
            self._until(partial(self._all_exchange, len(WAYS) + 1))
        except Exception as problem:
            self.problem = problem
        finally:
            self._inject("end")

    def _inject(self, action: str) -> None:
        record = read_record(self._run)
        if record is not None:
            ask(commands_socket(Path(record.sockets)), EndRun() if action == "end" else Inject(action, (RANK,)))

    def _lives(self) -> bool:
        record = read_record(self._run)
        assert record is not None
        seen = ask(commands_socket(Path(record.sockets)), Look())
        assert isinstance(seen, Seen)
        return seen.nodes == 4

    def _records(self) -> list[object]:
        try:
            return list(records(self._run, BACK))
        except (OSError, ValueError):
            return []

    def _all_exchange(self, life: int) -> bool:
        """In some rounds of this life of the node."""
        lives, full = 0, 0
        for each in self._records():
            if isinstance(each, Start):
                lives, full = lives + 1, 0
            elif isinstance(each, Round) and each.aggregated == 3:
                full += 1
        return lives == life and full >= 3

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)


def plan() -> RunPlan:
    """Rounds of a tenth of a second; who does not answer is not waited for."""
    return plan_of(
        load(Path(testbed.__file__).parent / "topologies" / "bundled" / "lan4.xml").require(),
        overlay={"kind": "full"},
        stop={"time": "120s"},
        training={"lr": 0.1, "batch": 8, "steps": 2},
        compute={"ms_per_step": 50},
        missing={"after": "0.5s", "then": "skip"},
    )


def exchanged_after(directory: RunDirectory) -> dict[str, float]:
    """By how it went: how long after its beginning everybody had a model of everybody."""
    back = records(directory, BACK)
    others = [records(directory, f"node.{rank}") for rank in range(3)]
    starts = [each for each in back if isinstance(each, Start) and each.rejoin is not None]
    asked = [each.what for each in records(directory, None) if isinstance(each, Event) and each.what in WAYS]
    assert asked == list(WAYS)
    found = {}
    for way, start in zip(WAYS, starts, strict=True):
        full = [
            next(
                (each.t for each in told if isinstance(each, Round) and each.t > start.t and each.aggregated == 3), inf
            )
            for told in (back, *others)
        ]
        found[way] = max(full) - start.t
    return found


def test_a_node_that_comes_back_exchanges_messages_within_two_seconds(tmp_path: Path) -> None:
    best: dict[str, float] = {}
    for attempt in ("one", "two", "three"):  # a machine that is busy with something else proves nothing
        (tmp_path / attempt).mkdir()
        person = Person(RunDirectory(tmp_path / attempt / "run"))
        person.start()
        directory, outcome = run(plan(), tmp_path / attempt)
        person.join()
        assert person.problem is None
        assert not outcome.failures
        for way, lasted_s in exchanged_after(directory).items():
            best[way] = min(best.get(way, lasted_s), lasted_s)
        if all(lasted_s <= WITHIN_S for lasted_s in best.values()):
            return
    pytest.fail(f"exchanged only after {best}")
