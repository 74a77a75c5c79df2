"""How nodes fared is known of those too that could not say goodbye."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path

from testbed.control.commands import Seen
from testbed.control.control import Control
from testbed.control.health import why_overloaded
from testbed.control.log import ControlLog
from testbed.protocol.message import encode
from testbed.protocol.nodes import Overrun
from testbed.records import Round
from testbed.rundir import create_run
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.run import RealRun
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

NODES = ("node.0", "node.1")
TOLD_S = 1.0
"""By the crash, whatever was done until then has been told of."""


@needs_network
def test_a_node_that_is_killed_has_said_how_it_fared(tmp_path: Path) -> None:
    events = "  - {at: 3s, node: node.1, do: crash}\n"
    compute = {"ms_per_step": 20}
    missing = {"after": "200ms", "then": "skip"}
    directory, _ = run(plan_of(star(2, events), compute=compute, missing=missing, stop={"time": "4s"}), tmp_path)
    computing = json.loads((directory.path / "summary.json").read_text())["computing"]
    alone, killed = ([each.t for each in records(directory, name) if isinstance(each, Round)] for name in NODES)
    early = sum(t < TOLD_S for t in killed)
    assert early > 2
    assert len(alone) + early <= computing["works"] <= len(alone) + len(killed) + 2


def test_what_a_node_said_last_counts_once_for_each_of_its_lives(tmp_path: Path) -> None:
    log = ControlLog(tmp_path / "events.jsonl")

    async def body() -> dict[str, Overrun]:
        control = Control(plan_of(star(2)), log)
        for pid, last in ((11, Overrun(9, 2, 0.5, 3, 0.75)), (12, Overrun(10, 1, 0.25, 4, 0.25))):
            theirs, mine = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            control.started(1, pid)
            control.connections.connect(1, theirs)
            for told in (Overrun(5, 1, 0.25, 1), last):
                mine.send(encode(told))
            mine.close()
            control.died(1, pid, "killed by SIGKILL")
        control.close()
        return dict(control.overruns)

    assert asyncio.run(body()) == {"node.1": Overrun(19, 3, 0.5, 7, 1.0)}
    log.close()


def test_who_looks_on_is_told_what_the_summary_will_say(tmp_path: Path) -> None:
    """Not only what the fabric knows: packets lost before it, and training that was late."""
    plan = locally(plan_of(star(2)), "none")
    log = ControlLog(tmp_path / "events.jsonl")

    async def look(whole: RealRun) -> Seen:
        async for reply in whole._seen():
            assert isinstance(reply, Seen)
            return reply
        raise AssertionError

    async def body() -> tuple[Seen, Seen]:
        whole = RealRun(plan, create_run(tmp_path, "run"), LocalBackend())
        whole._control, whole._engine = Control(plan, log), NoEngine()
        whole._control._overruns[1, 11] = Overrun(1000, 900, 9.0, 7, 99.0)
        early = await look(whole)
        whole._ready_s = 1.0
        whole._control._begun_at = time.monotonic() - 10.0
        return early, await look(whole)

    early, seen = asyncio.run(body())
    assert early.overloaded == ()
    overruns = {"node.1": Overrun(1000, 900, 9.0, 7, 99.0)}
    assert seen.t >= 10.0
    assert seen.overloaded == why_overloaded((), overruns, seen.t)
    assert len(seen.overloaded) == 2
    log.close()
