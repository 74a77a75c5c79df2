"""A process that all nodes need is gone: what is said of the nodes then."""

from __future__ import annotations

import asyncio
from pathlib import Path

from testbed.control.outcome import Outcome
from testbed.protocol.message import encode
from testbed.protocol.nodes import Recorded
from testbed.records import End, line
from tests.control.test_barrier import NOTHING, controlled, some_turns


def test_who_is_ended_because_of_it_has_not_finished(tmp_path: Path) -> None:
    """Even if it ends in good order."""

    async def body() -> Outcome:
        with controlled(tmp_path, 3) as (control, (done, stopped, _)):
            control.begin()
            done.send(encode(Recorded(line(End(1.0, "finished", 1, 1, NOTHING, NOTHING)))))
            await some_turns()
            control.break_down("the fabric is gone")
            stopped.send(encode(Recorded(line(End(1.0, "stopped", 1, 1, NOTHING, NOTHING)))))
            await some_turns()
            for rank in range(3):
                control.died(rank, rank + 1, "killed by SIGKILL")
            return await control.over()

    outcome = asyncio.run(body())
    assert (outcome.reason, outcome.broken, outcome.finished, outcome.failures) == (
        "failed",
        ("the fabric is gone",),
        1,
        (),
    )
