"""A node that lives without its network ends the run, with a word; one that is dead does not."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.engines.attach import NodeNetwork, join_network
from testbed.engines.device import hand_over, make_device
from testbed.engines.fabric.sockets import node_socket
from testbed.engines.fabric.start import start_fabric
from testbed.engines.namespace import TcpSettings, enter_namespace
from testbed.engines.tun import DEVICE
from testbed.errors import ExitCode
from testbed.plan.addresses import address
from testbed.rundir import create_run
from testbed.runtimes.processes import watches
from testbed.runtimes.processes.engine import FabricEngine
from testbed.runtimes.processes.watches import DeviceWatch
from testbed.runtimes.tracking.process_records import make_places
from tests.engines.odd_kernel import make_odd
from tests.runtimes.contexts import context_of
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.sim_runs import plan_of, star

PLAN = locally(plan_of(star(2)))
PATIENCE_S = 20.0
_RTM_DELLINK, _NLM_F_REQUEST = 17, 1


def watched(folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool, over: bool, for_s: float) -> list[str]:
    """Of a node that lives, whose device is lost, and whose process has ended unnoticed; what breaks."""
    monkeypatch.setattr(watches, "_DEVICES_EVERY_S", 0.005)
    monkeypatch.setattr(watches, "_WITHOUT_DEVICE_S", 0.2)

    async def body() -> list[str]:
        log = ControlLog(folder / "events.jsonl")
        control = Control(PLAN, log)
        for rank in (0, 1):
            control.started(rank, rank + 1)
        engine: Any = SimpleNamespace(lost_devices={1: "moths"} if is_lost else {})
        nodes: Any = SimpleNamespace(is_gone=lambda rank: over and rank == 1)
        watch = asyncio.ensure_future(DeviceWatch(context_of(PLAN, control, log, engine, nodes)).watch())
        await asyncio.sleep(for_s)
        watch.cancel()
        log.close()
        return control.rules.broken

    return asyncio.run(body())


@pytest.mark.slow
def test_it_breaks_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(tmp_path, monkeypatch, is_lost=True, over=False, for_s=2.0)
    assert found == ["node.1 is cut off though it lives: moths"]


@pytest.mark.parametrize(("is_lost", "over", "for_s"), [(False, False, 0.5), (True, True, 0.5), (True, False, 0.1)])
def test_nothing_breaks_for_the_dead_nor_at_once(
    is_lost: bool, over: bool, for_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched(tmp_path, monkeypatch, is_lost=is_lost, over=over, for_s=for_s) == []


@needs_network
def test_the_engine_knows_whose_device_is_gone_until_that_is_settled(tmp_path: Path) -> None:
    places = make_places(create_run(tmp_path, "run"))

    async def body() -> None:
        engine = FabricEngine(PLAN, places, lambda _: None, lambda _: None, start_fabric)
        try:
            await engine.begin(time.monotonic())
            for settle in (False, True):
                child = os.fork()
                if not child:
                    deletes_its_device(places.sockets)
                async with asyncio.timeout(PATIENCE_S):
                    while not engine.lost_devices:
                        await asyncio.sleep(0.02)
                assert engine.lost_devices.keys() == {1}
                assert "its device cannot be read" in engine.lost_devices[1]
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                if settle:
                    await engine.detach(1)
                else:
                    other = os.fork()
                    if not other:
                        joins(places.sockets)
                    async with asyncio.timeout(PATIENCE_S):
                        while engine.lost_devices:
                            await asyncio.sleep(0.02)
                    os.kill(other, signal.SIGKILL)
                    os.waitpid(other, 0)
                assert engine.lost_devices == {}
        finally:
            engine.end()
            engine.stop()

    try:
        asyncio.run(body())
    finally:
        places.remove()


def joins(sockets: Path) -> None:
    """Never returns, nor does what follows."""
    try:
        join_network(NodeNetwork(address(1), TcpSettings()), node_socket(sockets, 1))
        signal.pause()
    finally:
        os._exit(1)


def deletes_its_device(sockets: Path) -> None:
    """As its own privileges would let it, if it had not given them up."""
    try:
        enter_namespace(TcpSettings())
        hand_over(make_device(NodeNetwork(address(1), TcpSettings()).device), node_socket(sockets, 1))
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
            link = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(DEVICE), 0, 0)
            kernel.send(struct.pack("=IHHII", 16 + len(link), _RTM_DELLINK, _NLM_F_REQUEST, 1, 0) + link)
        signal.pause()
    finally:
        os._exit(1)


@needs_network
def test_a_fabric_that_cannot_read_any_device_ends_the_run_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_odd(monkeypatch, errno.EIO)
    begun_s = time.monotonic()
    _, outcome = run(plan_of(star(2)), tmp_path)
    assert outcome.exit_code in (ExitCode.NODE_FAILED, ExitCode.NOT_STARTED)
    assert "is cut off though it lives: its device cannot be read: Input/output error" in outcome.broken[0]
    assert time.monotonic() - begun_s < 60.0
