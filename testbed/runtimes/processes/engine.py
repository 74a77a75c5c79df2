"""What carries the packets of a run: the fabric, or nothing but the loopback device.

Takes a plan and places, gives an `Engine`; the fabric is a process of its own.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from testbed.engines.fabric.config import FabricConfig, config_of
from testbed.engines.fabric.health import Health
from testbed.engines.fabric.requests import FabricLost, Note
from testbed.engines.fabric.start import start_fabric
from testbed.errors import CouldNotStart, PreflightRefused, UsageProblem
from testbed.plan.model import RunPlan
from testbed.protocol.fabric import (
    Applied,
    Begin,
    Detach,
    Done,
    FabricStatus,
    GetStatus,
    Lateness,
    Links,
    NodeAttached,
    NodeDetached,
    NodeRefused,
    ShowLink,
    ToFabric,
)
from testbed.records import Event
from testbed.run_files import Malformed, read_document
from testbed.runtimes.processes.fabric_link import FabricLink, Granted
from testbed.runtimes.runtime import SHAPED, UNSHAPED
from testbed.runtimes.tracking.ownership import MARK
from testbed.runtimes.tracking.process_records import Places

FABRIC = SHAPED
NOT_SHAPED = f"the network was not shaped: plain loopback, engine `{UNSHAPED}`"
_NOTHING_TO_CHANGE = "this run's network is plain loopback (engine `none`): nothing in it can be changed or cut"


class EngineHealth(NamedTuple):
    """How well an engine kept up, in real time."""

    overloaded: tuple[str, ...]
    """Why, in words."""
    lateness: Lateness | None = None
    """Of its packets."""
    device_waits: Lateness | None = None
    """What waiting in nodes' devices added to frames' delays."""
    data_plane: str | None = None
    """Which of the fabric's carried the packets."""


class Engine(Protocol):
    """What a run asks of it; what it can never do raises PreflightRefused, what cannot be now UsageProblem."""

    pid: int | None

    @property
    def lost_devices(self) -> Mapping[int, str]:
        """Nodes whose devices are gone though they were not detached, and why; by rank, until they have another."""

    async def begin(self, monotonic_s: float) -> None: ...

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        """The network changes; since when, by CLOCK_MONOTONIC."""

    async def links(self, origin: str, dest: str, *, both: bool) -> Links:
        """What the links between two ends are like now."""

    async def detach(self, rank: int) -> None:
        """The node is dead: nothing is kept open for it."""

    async def look(self) -> FabricStatus | None: ...

    def end(self) -> None:
        """It is not needed any more. An end that came before this, by itself, is told to `lost`."""

    def stop(self) -> None:
        """Its files are complete; may be called again."""

    def health(self) -> EngineHealth:
        """After the end."""


class NoEngine:
    """Packets take the loopback device; no node can be cut off."""

    pid: int | None = None
    lost_devices: Mapping[int, str] = MappingProxyType({})

    async def begin(self, monotonic_s: float) -> None:
        pass

    async def change(self, make: Callable[[int], ToFabric]) -> float:  # noqa: ARG002
        raise PreflightRefused(_NOTHING_TO_CHANGE, "run with --engine fabric")

    async def links(self, origin: str, dest: str, *, both: bool) -> Links:  # noqa: ARG002
        raise PreflightRefused(_NOTHING_TO_CHANGE, "run with --engine fabric")

    async def detach(self, rank: int) -> None:
        pass

    async def look(self) -> FabricStatus | None:
        return None

    def end(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def health(self) -> EngineHealth:
        return EngineHealth(())


class Fabric(Protocol):
    """A fabric that goes on."""

    was_killed: bool
    """From here, because it did not end when it was told to."""

    @property
    def log(self) -> Path | None:
        """Where it says what is wrong; None where only others can look."""

    @property
    def pid(self) -> int | None: ...

    def is_alive(self) -> bool: ...

    def stop(self) -> int | None:
        """Its files are complete; how it ended, as an exit status, where that is known. May be called again."""


class FabricEngine:
    """The fabric's process, as the run sees it; for use inside a running event loop."""

    def __init__(
        self,
        plan: RunPlan,
        places: Places,
        log: Callable[[Event], None],
        lost: Callable[[str], None],
        start: Callable[[FabricConfig, Path], Fabric],
    ) -> None:
        """`lost` is told, once, when the fabric ends of its own accord; `start` gives one that can be reached."""
        self._places = places
        self._log = log
        self._lost = lost
        self._is_over = False
        self.lost_devices: dict[int, str] = {}
        self._names = [node.name for node in plan.nodes]
        config = config_of(plan, sockets=places.sockets, engine=places.engine)
        try:
            self._handle = start(config, places.runtime / FABRIC)
        except OSError as problem:
            raise CouldNotStart(f"cannot start the fabric: {problem.strerror or problem}") from problem
        self.pid: int | None = self._handle.pid
        try:
            self._link = FabricLink(config.control_socket, self._hear, self._is_gone)
        except FabricLost:
            self._handle.stop()
            raise

    async def begin(self, monotonic_s: float) -> None:
        with suppress(FabricLost):  # `lost` has been told
            await self._link.ask(lambda number: Begin(number, monotonic_s))

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        answer = await self._ask(make)
        return answer.monotonic_s if isinstance(answer, Done) else time.monotonic()

    async def links(self, origin: str, dest: str, *, both: bool) -> Links:
        answer = await self._ask(lambda number: ShowLink(number, origin, dest, both))
        assert isinstance(answer, Links)  # noqa: S101 - it is the answer to that
        return answer

    async def detach(self, rank: int) -> None:
        with suppress(FabricLost):
            await self._link.ask(lambda number: Detach(number, (rank,)))
        self.lost_devices.pop(rank, None)  # told before the answer was

    async def look(self) -> FabricStatus | None:
        with suppress(FabricLost):
            answer = await self._link.ask(GetStatus)
            return answer if isinstance(answer, FabricStatus) else None
        return None

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        was_alive = self._handle.is_alive()
        self._link.close()
        status = self._handle.stop()
        # Told to end, it may be hit by that word when it is as good as over.
        if not was_alive or (status not in (0, -signal.SIGTERM) and not self._handle.was_killed):
            self._tell_of_its_end("", status)

    def stop(self) -> None:
        self._link.close()
        self._handle.stop()

    def health(self) -> EngineHealth:
        run = self._places.run.path
        try:
            health = read_document(self._places.engine / "health.json", run, Health)
        except (OSError, Malformed):
            return EngineHealth(("the fabric has not said how it was",))
        return EngineHealth(health.overloaded, health.lateness, health.device_waits, health.data_plane)

    async def _ask(self, make: Callable[[int], ToFabric]) -> Granted:
        try:
            return await self._link.ask(make)
        except FabricLost as problem:
            raise UsageProblem(problem.message, "the run is about to end") from None

    def _hear(self, note: Note) -> None:
        if isinstance(note, Applied):
            self._log(Event(note.applied_s, "network-changed", note.change, planned_t=note.planned_s))
        elif isinstance(note, NodeDetached) and note.was_lost:
            self.lost_devices[note.rank] = note.why
        elif isinstance(note, NodeAttached):
            self.lost_devices.pop(note.rank, None)
        elif isinstance(note, NodeRefused):
            self._log(Event(note.t, "not-understood", f"by the fabric: {note.why}", node=self._names[note.rank]))

    def _is_gone(self, why: str) -> None:
        self._is_over = True
        self._tell_of_its_end(why, self._handle.stop())

    def _tell_of_its_end(self, why: str, status: int | None) -> None:
        how = f" ({why or _ended(status)})" if why or status is not None else ""
        where = f"; see {self._handle.log}" if self._handle.log is not None else ""
        self._lost(f"the fabric, which carries the packets, is gone{how}{where}")


def _ended(status: int | None) -> str:
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def start_engine(plan: RunPlan, places: Places, log: Callable[[Event], None], lost: Callable[[str], None]) -> Engine:
    """The one that the plan names."""
    if plan.engine == UNSHAPED:
        return NoEngine()
    return FabricEngine(plan, places, log, lost, partial(start_fabric, more_environment={MARK: places.mark}))
