"""A container that has ended for good, and is started once more, ends again as it did."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.plan.files import write_plan
from testbed.rundir import create_run
from testbed.runtimes.containers import FABRIC_SOCKET
from testbed.runtimes.containers.container_backend import ContainerBackend
from testbed.runtimes.containers.container_paths import ContainerPaths, folder_of_node, sockets_of
from testbed.runtimes.containers.end_mark import leave_mark, mark_in, read_mark, remove_mark
from testbed.runtimes.containers.layout import lay_out, remove_within
from testbed.runtimes.containers.supervisor import AGAIN
from testbed.runtimes.containers.supervisor_clients import SupervisorClients
from tests.runtimes.containers.lone_supervisor import NEVER
from tests.runtimes.containers.test_supervisor_clients import Told, until
from tests.runtimes.sim_runs import plan_of, star

RETURN = "  - {at: 1s, node: node.0, do: crash}\n  - {at: 2s, node: node.0, do: join}\n"
ROOT = Path(__file__).parents[3]


class Container:
    """The first node's; each start of it is one process."""

    def __init__(self, folder: Path) -> None:
        self.sockets = folder / "all"
        self._inside = folder / "inside"
        run = create_run(folder, "run")
        write_plan(run, plan_of(star(2)))
        for rank in range(2):
            folder_of_node(self.sockets, rank).mkdir(parents=True)
        self.is_run_over = False
        self.own = folder_of_node(self.sockets, 0)
        (self.own / FABRIC_SOCKET).touch()
        self._inside.mkdir()
        (self._inside / "sockets").symlink_to(self.own)
        self.slots = self._inside / "slots"
        self.slots.mkdir()
        (self._inside / "node").symlink_to(run.node("node.0").path)

    def end_run(self, supervisors: SupervisorClients) -> None:
        self.is_run_over = True
        supervisors.close()

    async def start(self, code: int | str, *more: str, apart: Sequence[str] = ()) -> asyncio.subprocess.Process:
        """`apart` are words before its command."""
        words = [sys.executable, "-m", "tests.runtimes.containers.lone_supervisor", str(self._inside), str(code), *more]
        return await asyncio.create_subprocess_exec(*apart, *words, env={**os.environ, "PYTHONPATH": str(ROOT)})


def play(folder: Path, body: Callable[[Container, SupervisorClients, Told], Awaitable[None]]) -> None:
    async def whole() -> None:
        container, told = Container(folder), Told()
        supervisors = SupervisorClients(container.sockets, ["node.0", "node.1"], (), {0: 1}, told.news)
        try:
            await body(container, supervisors, told)
        finally:
            if not container.is_run_over:
                supervisors.close()

    asyncio.run(whole())


@pytest.mark.parametrize("code", [7, 0])
@pytest.mark.processes
def test_one_that_is_started_again_after_the_run_ends_as_before(code: int, tmp_path: Path) -> None:
    async def body(container: Container, supervisors: SupervisorClients, told: Told) -> None:
        supervisors.fork(0, None, 0)
        first = await container.start(code)
        await until(lambda: told.died)
        assert told.died[0].status == code << 8
        mark = mark_in(container.own)
        assert mark.exists() == bool(code)
        container.end_run(supervisors)
        assert await first.wait() == code
        remove_within(container.sockets, [mark])
        assert [path for path in container.sockets.rglob("*") if path.is_file()] == [mark] * bool(code)
        if code:
            assert await (await container.start(NEVER)).wait() == code

    play(tmp_path, body)


@pytest.mark.parametrize("returns", [{0: 1}, {}])
def test_what_a_container_mounts_that_may_be_started_again_stays(returns: dict[int, int], tmp_path: Path) -> None:
    """Else its engine could not start it, so that it would end as before."""

    async def whole() -> None:
        inside = ContainerPaths(tmp_path)
        run = create_run(tmp_path, "run")
        plan = plan_of(star(2, RETURN if returns else ""))
        write_plan(run, plan)
        lay_out(plan, run, 1, inside)
        (tmp_path / "sockets").symlink_to(sockets_of(run))
        backend = ContainerBackend(inside)
        places = backend.places(run)
        log = ControlLog(run.events)
        control = Control(plan, log)
        nodes = backend.nodes(plan, control, 0, Told().news)
        nodes.close(0.0)
        control.close()
        leave_mark(folder_of_node(places.sockets, 0), 3)
        backend.leave()
        left = {str(path.relative_to(places.sockets)) for path in places.sockets.rglob("*")}
        assert left == (
            {"slots", "slots/bell", "slots/slot-0", "slots/queue-0", "nodes", "nodes/0", "nodes/0/ended"}
            if returns
            else set()
        )

    asyncio.run(whole())


@pytest.mark.processes
def test_one_that_was_killed_and_is_wanted_back_lives_again(tmp_path: Path) -> None:
    async def body(container: Container, supervisors: SupervisorClients, told: Told) -> None:
        supervisors.fork(0, None, 0)
        first = await container.start(NEVER)
        await until(lambda: told.began)
        while not told.died:  # the learner's process may not be there yet
            supervisors.signal(0, signal.SIGKILL)
            await asyncio.sleep(0.02)
        assert told.died[0].status == signal.SIGKILL
        assert read_mark(container.own) == 128 + signal.SIGKILL
        supervisors.fork(0, "fresh", 1)
        assert await first.wait() == AGAIN
        again = await container.start(0)
        await until(lambda: len(told.died) == 2)
        assert told.began == [(0, 1), (0, 2)]
        container.end_run(supervisors)
        assert await again.wait() == 0

    play(tmp_path, body)


def test_what_a_learner_puts_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    mark = mark_in(tmp_path)
    for text in ("", "0", "256", "-1", "seven", "9" * 1000):
        mark.write_text(text)
        assert read_mark(tmp_path) is None, text
    mark.unlink()
    other = tmp_path / "other"
    other.write_text("7")
    mark.symlink_to(other)
    leave_mark(tmp_path, 3)
    assert (read_mark(tmp_path), other.read_text()) == (None, "7")
    remove_mark(tmp_path)
    os.mkfifo(mark)
    leave_mark(tmp_path, 3)
    assert read_mark(tmp_path) is None
    remove_mark(tmp_path)
    leave_mark(tmp_path, 3)
    assert read_mark(tmp_path) == 3
    remove_mark(tmp_path)
    remove_mark(tmp_path)
    assert read_mark(tmp_path) is None
