"""A run that is going on, as far as commands can tell: a plan, a record, a fabric, and a control to ask."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.control.commands import Command, CommandDoor, EndRun, Look, Reply
from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.engines.fabric.requests import FabricLost
from testbed.engines.fabric.sockets import control_socket
from testbed.engines.fabric.start import FabricHandle, start_fabric
from testbed.errors import UsageProblem
from testbed.plan.files import write_plan
from testbed.plan.model import RunPlan
from testbed.protocol.fabric import Done, Links, ShowLink, ToFabric
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.fabric_link import FabricLink
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.node_actions import NodeActions
from testbed.runtimes.tracking.process_records import Places, process_record
from tests.engines.world import configuration, pair
from tests.plan.test_make import nodes, plan_of
from tests.runtimes.contexts import context_of
from tests.runtimes.unforked import Unforked


@contextmanager
def live_run(folder: Path, fabric_of: str | None = None) -> Iterator[tuple[RunDirectory, FabricHandle]]:
    """Of two nodes, a.0 and a.1 in the plan, whose fabric calls them n.0 and n.1."""
    run = create_run(folder, "one")
    plan = plan_of(nodes(2)).model_copy(update={"runtime": "local", "engine": "fabric"})
    write_plan(run, plan)
    with tempfile.TemporaryDirectory(prefix="testbed-") as sockets:
        places = Places(run, Path(sockets))
        places.record.parent.mkdir()
        config = configuration(fabric_of or pair("10ms", "20Mbps", queue="50ms"), run.path, Path(sockets))
        fabric = start_fabric(config, run.path / "runtime" / "fabric")
        places.write_record([process_record("control", os.getpid()), process_record("fabric", fabric.pid)])
        try:
            with _Leader(plan, places):
                yield run, fabric
        finally:
            fabric.stop()


class _Connected(NoEngine):
    """A fabric that another user has started."""

    def __init__(self, path: Path) -> None:
        self.link = FabricLink(path, lambda _: None, lambda _: None)

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        try:
            answer = await self.link.ask(make)
        except FabricLost as problem:
            raise UsageProblem(problem.message) from None
        assert isinstance(answer, Done)
        return answer.monotonic_s

    async def links(self, origin: str, dest: str, *, both: bool) -> Links:
        answer = await self.link.ask(lambda number: ShowLink(number, origin, dest, both))
        assert isinstance(answer, Links)
        return answer


class _Leader:
    """Control in a thread: it obeys what concerns the network."""

    def __init__(self, plan: RunPlan, places: Places) -> None:
        self._plan = plan
        self._places = places
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result(10)

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _begin(self) -> None:
        log = ControlLog(self._places.run.events)
        control = Control(self._plan, log)
        control.begin()
        while control.now() == 0.0:
            await asyncio.sleep(0.01)
        self._engine = _Connected(control_socket(self._places.sockets))
        nodes = Unforked(control.nodes.pid_of, self._places.slots)
        context = context_of(self._plan, control, log, self._engine, nodes)
        self._injections = Injections(context, NodeActions(context), lambda _: None)
        self._log = log
        self._door = CommandDoor(self._places.commands_socket, self._obey)

    async def _end(self) -> None:
        self._door.close()
        self._injections.close()
        self._engine.link.close()
        self._log.close()
        await asyncio.sleep(0.01)  # for what was cancelled

    def _obey(self, command: Command) -> AsyncIterator[Reply]:
        if isinstance(command, Look | EndRun):
            raise UsageProblem("this is a test")
        return self._injections.obey(command)
