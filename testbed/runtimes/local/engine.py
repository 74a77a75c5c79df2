"""What carries the packets of a local run: the fabric, or nothing but the loopback device.

Takes a plan and places, gives an `Engine`; the fabric is a process of its own.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

import msgspec

from testbed.control.change_words import words
from testbed.engines.fabric.config import config_of
from testbed.engines.fabric.health import Health
from testbed.engines.fabric.start import FabricHandle, FabricLost, start_fabric
from testbed.errors import UsageProblem
from testbed.network.timeline import BridgeChange, LinksChange, NodesChange, PartitionChange, timeline
from testbed.plan.model import RunPlan
from testbed.protocol import (
    Applied,
    Begin,
    Cut,
    Denied,
    Detach,
    FabricStatus,
    GetStatus,
    Lateness,
    ToFabric,
    Uncut,
    Watch,
)
from testbed.records import Event
from testbed.runtimes.local.places import Places

FABRIC, NONE = "fabric", "none"
UNSHAPED = "the network was not shaped: plain loopback, engine `none`"


class Engine(Protocol):
    """What a run asks of it; what it cannot do raises UsageProblem."""

    pid: int | None

    def begin(self, monotonic_s: float) -> None: ...

    def cut(self, rank: int) -> None: ...

    def uncut(self, rank: int) -> None: ...

    def detach(self, rank: int) -> None:
        """The node is dead."""

    def look(self) -> FabricStatus | None: ...

    def stop(self) -> None:
        """Its files are complete; may be called again."""

    def judge(self) -> tuple[tuple[str, ...], Lateness | None]:
        """After the end: why the run is overloaded, and how late its packets were."""


class NoEngine:
    """Packets take the loopback device; nobody can be cut off."""

    pid: int | None = None

    def begin(self, monotonic_s: float) -> None:
        pass

    def cut(self, rank: int) -> None:  # noqa: ARG002
        raise UsageProblem("without an engine nobody can be cut off", "run with --engine fabric")

    uncut = cut

    def detach(self, rank: int) -> None:
        pass

    def look(self) -> FabricStatus | None:
        return None

    def stop(self) -> None:
        pass

    def judge(self) -> tuple[tuple[str, ...], Lateness | None]:
        return (), None


class FabricEngine:
    """The fabric's process, as the run sees it; for use inside a running event loop."""

    def __init__(
        self, plan: RunPlan, places: Places, log: Callable[[Event], None], lost: Callable[[str], None]
    ) -> None:
        """`lost` is told, once, when the fabric ends of its own accord."""
        self._places = places
        self._log = log
        self._lost = lost
        self._stopping = False
        until_s = plan.experiment.stop.time_s
        self._changes = _network_changes(plan, float("inf") if until_s is None else until_s)
        config = config_of(plan, sockets=places.sockets, engine=places.engine)
        self._handle: FabricHandle = start_fabric(config, places.runtime / FABRIC)
        self.pid: int | None = self._handle.pid
        try:
            self._watching = self._handle.connect()
            self._watching.ask(lambda number: Watch(number, lead=True))
            self._asking = self._handle.connect()
        except FabricLost:
            self._handle.stop()
            raise
        asyncio.get_running_loop().add_reader(self._watching.fileno(), self._hear)

    def begin(self, monotonic_s: float) -> None:
        self._ask(lambda number: Begin(number, monotonic_s))

    def cut(self, rank: int) -> None:
        self._ask(lambda number: Cut(number, (rank,)))

    def uncut(self, rank: int) -> None:
        self._ask(lambda number: Uncut(number, (rank,)))

    def detach(self, rank: int) -> None:
        self._ask(lambda number: Detach(number, (rank,)))

    def look(self) -> FabricStatus | None:
        answer = self._ask(GetStatus)
        return answer if isinstance(answer, FabricStatus) else None

    def stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            asyncio.get_running_loop().remove_reader(self._watching.fileno())
        self._handle.stop()

    def judge(self) -> tuple[tuple[str, ...], Lateness | None]:
        try:
            health = msgspec.json.decode((self._places.engine / "health.json").read_bytes(), type=Health)
        except (OSError, msgspec.MsgspecError):
            return ("the fabric has not said how it was",), None
        return health.overloaded, health.lateness

    def _ask(self, make: Callable[[int], ToFabric]) -> object:
        if self._stopping:
            return None
        try:
            answer = self._asking.ask(make)
        except FabricLost:
            self._is_gone()
            return None
        if isinstance(answer, Denied):
            raise UsageProblem(answer.reason)
        return answer

    def _hear(self) -> None:
        notes = []
        with suppress(FabricLost):
            notes = self._watching.notes()
            for note in notes:
                if isinstance(note, Applied) and note.what != "nodes":
                    change = next(self._changes, None)
                    detail = note.detail if change is None else words(change)
                    self._log(Event(note.applied_s, "network-changed", detail, planned_t=note.planned_s))
            return
        self._is_gone()

    def _is_gone(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        asyncio.get_running_loop().remove_reader(self._watching.fileno())
        status = self._handle.stop()
        ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        self._lost(f"the fabric, which carries the packets, is gone ({ended}); see {self._handle.log}")


def _network_changes(plan: RunPlan, until_s: float) -> Iterator[LinksChange | BridgeChange | PartitionChange]:
    """Those that the fabric tells of, in its order."""
    for change in timeline(plan.load_topology(), plan.seed, until_s):
        if not isinstance(change, NodesChange):
            yield change


def start_engine(plan: RunPlan, places: Places, log: Callable[[Event], None], lost: Callable[[str], None]) -> Engine:
    """The one that the plan names."""
    return NoEngine() if plan.engine == NONE else FabricEngine(plan, places, log, lost)
