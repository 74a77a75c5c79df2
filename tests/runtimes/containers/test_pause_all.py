"""A node that is paused stands still with all that it has started."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from testbed.node.compute_slots import make_slots
from testbed.runtimes.containers.supervisor_clients import SupervisorClients
from tests.runtimes.containers.lone_supervisor import BEATS, FAMILY
from tests.runtimes.containers.test_end_mark import Container, play
from tests.runtimes.containers.test_supervisor_clients import Told, until

APART = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
_A_WHILE_S = 0.3
"""In which there would be some thirty beats."""


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run([*APART, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine makes no namespace of processes")


@pytest.mark.processes
def test_a_child_of_the_learner_is_paused_and_resumed_with_it(tmp_path: Path) -> None:
    async def body(container: Container, supervisors: SupervisorClients, told: Told) -> None:
        beats = tmp_path / "run" / "nodes" / "node.0" / BEATS
        supervisors.fork(0, None, 0)
        first = await container.start(FAMILY, apart=APART)
        await until(beats.exists)
        assert await supervisors.pause([0]) == []
        still = beats.stat().st_size
        await asyncio.sleep(_A_WHILE_S)
        assert beats.stat().st_size == still
        supervisors.signal(0, signal.SIGCONT)
        await until(lambda: beats.stat().st_size > still)
        supervisors.signal(0, signal.SIGKILL)
        await until(lambda: told.died)
        last = beats.stat().st_size
        await asyncio.sleep(_A_WHILE_S)
        assert beats.stat().st_size == last, "and it dies with it"
        container.end_run(supervisors)
        assert await first.wait() == 128 + signal.SIGKILL

    play(tmp_path, body)


@pytest.mark.processes
def test_that_a_child_of_it_keeps_a_slot_is_known(tmp_path: Path) -> None:
    async def body(container: Container, supervisors: SupervisorClients, told: Told) -> None:
        make_slots(container.slots, 1)
        supervisors.fork(0, None, 0)
        first = await container.start(FAMILY, apart=APART)
        await until((tmp_path / "run" / "nodes" / "node.0" / BEATS).exists)
        assert await supervisors.pause([0]) == [0]
        supervisors.signal(0, signal.SIGKILL)
        await until(lambda: told.died)
        container.end_run(supervisors)
        assert await first.wait() == 128 + signal.SIGKILL

    play(tmp_path, body)
