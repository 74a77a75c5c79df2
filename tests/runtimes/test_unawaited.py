"""An algorithm that forgets to await something: in virtual time and with real processes the run says so, alike."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import pytest

from testbed.control.progress import ProgressTally
from testbed.node.unawaited import tell_of_unawaited, unawaited_are_told
from testbed.records import Event
from testbed.rundir import RunDirectory
from tests.runtimes import local_runs, sim_runs
from tests.runtimes.sim_runs import plan_of, records, star

FORGETFUL = """
from testbed.node.algorithm import Algorithm


class Forgetful(Algorithm):
    async def run(self, node):
        async for _ in node.rounds():
            node.train()
            await node.train()
"""
WORDS = "forgetful.py:8: coroutine 'Node.train' was never awaited: put `await` before it"


def noted(directory: RunDirectory, node: str) -> list[str]:
    found = records(directory, node)
    return [each.detail for each in found if isinstance(each, Event) and each.what == "not-awaited"]


@pytest.mark.processes
def test_a_run_tells_of_it_in_either_world(tmp_path: Path) -> None:
    code = tmp_path / "forgetful.py"
    code.write_text(FORGETFUL)
    plan = plan_of(star(2), algorithm=f"{code}:Forgetful")
    (tmp_path / "sim").mkdir()
    (tmp_path / "local").mkdir()
    imagined, sim = sim_runs.run(plan, tmp_path / "sim")
    real, local = local_runs.run(plan, tmp_path / "local", engine="none")
    assert sim.remarks == (WORDS,)
    assert local.remarks[1:] == sim.remarks  # the first: that nothing was shaped
    assert (sim.reason, local.reason) == ("finished", "finished")
    for directory in (imagined, real):
        for name in ("node.0", "node.1"):
            assert noted(directory, name) == [WORDS]


def test_everybody_hears_of_their_own_and_nobody_of_other_warnings() -> None:
    async def forgotten() -> None:
        pass

    async def life(told: list[str]) -> None:
        tell_of_unawaited(told.append)
        await asyncio.sleep(0)
        forgotten()  # type: ignore[unused-coroutine]
        warnings.warn("something else", DeprecationWarning, stacklevel=1)

    async def both(one: list[str], other: list[str]) -> None:
        await asyncio.gather(life(one), life(other))

    one, other = list[str](), list[str]()
    with pytest.warns(DeprecationWarning, match="something else") as seen, unawaited_are_told():
        asyncio.run(both(one, other))
    assert len(seen) == 2
    for told in (one, other):
        (words,) = told
        assert words.startswith("test_unawaited.py:")
        assert "forgotten' was never awaited" in words


def test_what_many_nodes_meet_is_a_remark_once_and_there_are_not_many() -> None:
    watch = ProgressTally((0, 1), 1, None)
    for rank in range(30):
        watch.recorded(rank, Event(0.0, "not-awaited", "the same"))
        watch.recorded(rank, Event(0.0, "peer-missing", "another matter"))
    assert watch.remarks == ("the same",)
    for rank in range(30):
        watch.recorded(rank, Event(0.0, "not-awaited", f"{rank}"))
    assert len(watch.remarks) == 10
