"""Where a run takes place: what its nodes come from, what carries their packets, and what is left of it in the end.

Takes a plan and its run directory, gives nodes and an engine. `LocalBackend` is this machine, with a process for each
node; in containers it is another.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from testbed.control.control import Control
from testbed.plan.model import RunPlan
from testbed.protocol.zygote import AverageEvaluated, Died, Discard, EvaluateAverage
from testbed.records import Event, Failure
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.engine import Engine
from testbed.runtimes.tracking.process_records import Places


@dataclass(frozen=True)
class News:
    """What a backend tells the run of."""

    began: Callable[[int, int], None]
    """A life of a node: its rank, and what tells this life from its others: a process id, or a number."""
    died: Callable[[Died], None]
    evaluated: Callable[[AverageEvaluated], None]
    gone: Callable[[str], None]
    """There will be no more nodes: why, in words."""


class Nodes(Protocol):
    """What can be done to the nodes of a run; by rank."""

    def start(self, rank: int, rejoin: str | None, first_round: int) -> None:
        """A new life begins, as soon as can be."""

    def why_not_again(self, rank: int) -> str | None:
        """Why no further life of it can begin, in words; nothing where one can."""

    def may_come_back(self, rank: int, times: int) -> None:
        """From now on it can come back that often, in all."""

    def signal(self, rank: int, number: signal.Signals) -> None:
        """To the node's process, if there is one."""

    async def pause(self, ranks: Collection[int], is_wanted: Callable[[int], bool]) -> list[int]:
        """They stand still, all at once, and none in a slot, as far as can be; gives those that do.

        A node that is not wanted to any more meanwhile goes on.
        """

    def busy_s(self, rank: int) -> float:
        """Processor time that its life has taken so far, as far as it is known."""


class AllNodes(Nodes, Protocol):
    """What nodes come from, as the run sees it."""

    async def is_warm(self) -> Failure | None:
        """Wait until nodes can be started; what is wrong with the plan's code when they never can."""

    def started_by(self, rank: int) -> list[int]:
        """Its process and all that it has started; none where its container keeps within its limits what it has."""

    def is_gone(self, rank: int) -> bool:
        """Whether its process is over, though that has not been told."""

    def evaluate_average(self, order: EvaluateAverage | Discard) -> None:
        """Have an average evaluated, or its models discarded."""

    def give_up(self) -> None:
        """`is_warm` returns at once."""

    def close(self, patience_s: float) -> None:
        """It ends, and all nodes with it: at once without patience."""


class Backend(Protocol):
    """Used for one run, in this order."""

    def places(self, run: RunDirectory) -> Places:
        """Where the sockets and files of the run lie."""

    def nodes(self, plan: RunPlan, control: Control, loopback: int, news: News) -> AllNodes:
        """Starts to get warm."""

    async def engine(self, plan: RunPlan, log: Callable[[Event], None], lost: Callable[[str], None]) -> Engine:
        """Once it can be reached; one without packets where the run ends before."""

    def leave(self) -> None:
        """Nothing of the run is left here but its results."""
