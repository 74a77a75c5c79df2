"""The backend of a run in containers: control, the fabric and every learner have one each, started from outside.

Takes the run directory and the folder of sockets as control's container mounts them, gives nodes and an emulation
engine; starts a process that evaluates averages of models, and touches the nodes' sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed.control.control import Control
from testbed.engines.fabric.sockets import control_socket
from testbed.engines.fabric.start import END_PATIENCE_S
from testbed.errors import CouldNotStart
from testbed.plan.containers import comebacks
from testbed.plan.model import RunPlan
from testbed.protocol.zygote import Discard, EvaluateAverage
from testbed.records import Event, Failure
from testbed.rundir import NodeDirectory, RunDirectory
from testbed.runtimes.containers import CONTROL_SOCKET
from testbed.runtimes.containers.container_paths import ContainerPaths, folder_of_node, slots_of
from testbed.runtimes.containers.end_mark import mark_in
from testbed.runtimes.containers.layout import remove_within
from testbed.runtimes.containers.supervisor_clients import SupervisorClients
from testbed.runtimes.processes.backend import News
from testbed.runtimes.processes.engine import Engine, FabricEngine, NoEngine
from testbed.runtimes.processes.model_files import remove_models
from testbed.runtimes.processes.zygote_client import ForkServerClient
from testbed.runtimes.tracking.process_records import Places
from testbed.socket_paths import connect
from testbed.topologies.event_checks import starting_absent

_TIMEOUT_S = 120.0
_LOOK_S = 0.05
_CALL_S = 1.0


class ContainerBackend:
    """The backend of one run."""

    def __init__(self, inside: ContainerPaths) -> None:
        self._inside = inside
        self._places: Places
        self._directories: list[NodeDirectory] = []
        self._supervisors: SupervisorClients | None = None
        self._is_wanted: Callable[[], bool]

    def places(self, run: RunDirectory) -> Places:
        self._places = Places(run, self._inside.sockets)
        return self._places

    def nodes(self, plan: RunPlan, control: Control, loopback: int, news: News) -> ContainerNodes:  # noqa: ARG002
        sockets = self._inside.sockets
        self._directories = [self._inside.run.node(node.name) for node in plan.nodes]
        self._is_wanted = lambda: not control.is_ending
        control.connections.listen_at([folder_of_node(sockets, node.rank) / CONTROL_SOCKET for node in plan.nodes])
        topology = plan.load_topology()
        absent = tuple(sorted(starting_absent(topology)))
        supervisors = SupervisorClients(sockets, [node.name for node in plan.nodes], absent, comebacks(topology), news)
        self._supervisors = supervisors
        evaluator = partial(ForkServerClient, self._places, news.evaluated, news.gone)
        return ContainerNodes(supervisors, evaluator)

    async def engine(self, plan: RunPlan, log: Callable[[Event], None], lost: Callable[[str], None]) -> Engine:
        met = await wait_for_fabric(control_socket(self._inside.sockets), self._is_wanted)
        return NoEngine() if met is None else FabricEngine(plan, self._places, log, lost, lambda *_: met)

    def leave(self) -> None:
        """Removes the sockets, but not the folder, which is mounted, nor what restarted containers read."""
        sockets = self._inside.sockets
        again = [] if self._supervisors is None else self._supervisors.started_again
        marks = [mark_in(folder_of_node(sockets, rank)) for rank in again]
        mounted = [slots_of(sockets)] if again else []  # Docker refuses to restart a container without its mounts
        remove_within(sockets, [*marks, *mounted])
        for directory in self._directories:
            remove_models(directory)


class ContainerNodes:
    """The learners' containers, and the process that evaluates averages of models."""

    def __init__(self, supervisors: SupervisorClients, start_evaluator: Callable[[], ForkServerClient]) -> None:
        self._supervisors = supervisors
        self._start_evaluator = start_evaluator
        self._evaluator: ForkServerClient | None = None
        self._is_given_up = False
        self.start = supervisors.fork
        self.why_not_again = supervisors.why_not_again
        self.may_come_back = supervisors.may_come_back
        self.signal = supervisors.signal
        self.busy_s = supervisors.busy_s

    def started_by(self, rank: int) -> list[int]:  # noqa: ARG002
        """No process to watch: Docker limits each container."""
        return []

    async def is_warm(self) -> Failure | None:
        """Starts the evaluator after the containers have connected: its import of torch would slow them down."""
        await self._supervisors.wait_until_connected()
        if self._is_given_up:
            return None
        self._evaluator = self._start_evaluator()
        return await self._evaluator.is_warm()

    def evaluate_average(self, order: EvaluateAverage | Discard) -> None:
        if self._evaluator is not None:
            self._evaluator.evaluate_average(order)

    def give_up(self) -> None:
        """Stops waiting for containers and the evaluator."""
        self._is_given_up = True
        self._supervisors.give_up()
        if self._evaluator is not None:
            self._evaluator.give_up()

    async def pause(self, ranks: Collection[int], is_wanted: Callable[[int], bool]) -> list[int]:  # noqa: ARG002
        """Pauses each learner through its container's first process, which knows whether it computes."""
        return await self._supervisors.pause(ranks)

    def is_gone(self, rank: int) -> bool:  # noqa: ARG002
        """Always False: a dead learner is noticed by its closed connection."""
        return False

    def close(self, timeout_s: float) -> None:
        if self._evaluator is not None:
            self._evaluator.close(timeout_s)
        self._supervisors.close()


@dataclass
class ExternalFabric:
    """A fabric in a container of its own. It ends when control disconnects, and listens until its files are complete.

    Only Docker, Compose or the cluster that started it knows its exit code.
    """

    socket: Path
    log: None = None
    was_killed: bool = False
    pid: int | None = None

    def is_alive(self) -> bool:
        """Whether it accepts connections: a killed fabric leaves its socket file."""
        try:
            connect(self.socket, _CALL_S).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            pass  # too busy to accept
        return True

    def stop(self) -> int | None:
        """Waits for its end; 0 if it has removed its socket, as at an orderly end."""
        until_s = time.monotonic() + END_PATIENCE_S
        while self.is_alive():
            if time.monotonic() > until_s:
                return None
            time.sleep(_LOOK_S)
        return None if self.socket.exists() else 0


async def wait_for_fabric(socket: Path, is_wanted: Callable[[], bool]) -> ExternalFabric | None:
    """Waits until the fabric listens; None if the run ends before. Raises CouldNotStart after the timeout."""
    fabric = ExternalFabric(socket)
    until_s = time.monotonic() + _TIMEOUT_S
    while not fabric.is_alive():
        if not is_wanted():
            return None
        if time.monotonic() > until_s:
            words = f"the fabric's container has not started listening within {_TIMEOUT_S:g} s"
            raise CouldNotStart(words, "see its log")
        await asyncio.sleep(_LOOK_S)
    return fabric
