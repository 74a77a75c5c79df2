"""A container whose control is not there any more ends by itself."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from testbed.runtimes.containers import SUPERVISOR_SOCKET
from testbed.socket_paths import short_enough
from tests.runtimes.containers.lone_supervisor import NEVER
from tests.runtimes.containers.test_end_mark import Container


@pytest.mark.processes
def test_a_socket_that_a_killed_control_has_left_is_not_asked_for_ever(tmp_path: Path) -> None:
    container = Container(tmp_path)
    path = container.own / SUPERVISOR_SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control, short_enough(path) as name:
        control.bind(name)  # and no process listens

    async def whole() -> None:
        process = await container.start(NEVER, "0.5")
        try:
            assert await asyncio.wait_for(process.wait(), 15) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    asyncio.run(whole())
