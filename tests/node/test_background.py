"""Tasks beside `run`: none fails without its node, and none outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.node.event_loop import THREAD_REFUSED, TIMER_REFUSED
from testbed.node.life import Reason
from testbed.records import Failure
from tests.node.small_world import Outcome, World, full

CODE = '''"""An algorithm with work beside `run`."""

import asyncio
import sys
from pathlib import Path

from testbed.node.algorithm import Algorithm


def log(word):
    with (Path(__file__).parent / "log").open("a") as file:
        file.write(word)


class Mine(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            await node.train()
            if node.rank == 0 and round_ == 1:
                {start}
            await node.sleep(1.0)

    async def work(self, node):
        await node.sleep(0.5)
        {fail}
'''
LINE = 1 + CODE[: CODE.index("{fail}")].count("\n")
"""On which `work` fails."""
CALL = 1 + CODE[: CODE.index("{start}")].count("\n")
"""From which it is started."""


def run(folder: Path, start: str, fail: str = "raise ValueError('on purpose')", rounds: int = 4) -> Outcome:
    (folder / "mine.py").write_text(CODE.format(start=start, fail=fail))
    return World(2, algorithm={"name": f"{folder / 'mine.py'}:Mine"}, graph=full(2), rounds=rounds).run()


def failure(outcome: Outcome) -> Failure:
    """Of node 0; the other one was stopped."""
    assert outcome.reasons == [Reason.FAILED, Reason.STOPPED]
    found = outcome.end(0).failure
    assert found is not None
    assert found.file == "mine.py"
    return found


STARTS = {
    "spawned": "node.spawn(self.work(node))",
    "spawned and kept": "self.kept = node.spawn(self.work(node))",
    "by a spawned one": "node.spawn(asyncio.wait_for(self.work(node), None))",
    "bare": "asyncio.create_task(self.work(node))",
    "bare and kept": "self.kept = asyncio.create_task(self.work(node))",
    "future": "self.kept = asyncio.ensure_future(self.work(node))",
    "by a bare one": "self.kept = asyncio.ensure_future(asyncio.wait_for(self.work(node), None))",
    "gathered": "await asyncio.gather(self.work(node), node.sleep(9.0))",
    "awaited": "await asyncio.create_task(self.work(node))",
}
FAILS = {
    "raise ValueError('on purpose')": "on purpose (ValueError)",
    "sys.exit('on purpose')": "on purpose (SystemExit)",
}


@pytest.mark.parametrize("fail", FAILS)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_task_that_fails_ends_its_node_at_once(start: str, fail: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, start, fail)
    found = failure(outcome)
    assert (found.message, found.line) == (FAILS[fail], LINE)
    assert outcome.end(0).t == pytest.approx(1.0 + 0.02 + 0.5)


def test_a_failure_in_a_task_group_has_its_own_place(tmp_path: Path) -> None:
    start = "async with asyncio.TaskGroup() as tasks: tasks.create_task(self.work(node))"
    found = failure(run(tmp_path, start))
    assert (found.message, found.line) == ("on purpose (ValueError)", LINE)


def test_a_spawned_task_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    found = failure(run(tmp_path, "node.spawn(self.work(node))", "raise asyncio.CancelledError"))
    assert found.line == LINE


CANCELS_ITSELF = "raise asyncio.CancelledError", "asyncio.current_task().cancel(); await node.sleep(1)"


@pytest.mark.parametrize("fail", CANCELS_ITSELF)
def test_run_cannot_cancel_itself(fail: str, tmp_path: Path) -> None:
    found = failure(run(tmp_path, "await self.work(node)", fail))
    assert found.line == LINE


RETRIEVED = {
    "awaited": "await asyncio.wait([task]); task.exception()",
    "gathered": "await asyncio.gather(task, return_exceptions=True)",
    "nested": "await asyncio.gather(asyncio.gather(asyncio.shield(task)), return_exceptions=True)",
    "cancelled": "task.cancel()",
    "given up": "task.cancel(); await asyncio.wait([task])",
}


@pytest.mark.parametrize("then", RETRIEVED.values(), ids=RETRIEVED)
def test_a_bare_task_whose_failure_is_dealt_with_is_no_failure(then: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, f"task = asyncio.create_task(self.work(node)); {then}")
    assert outcome.reasons == [Reason.FINISHED] * 2


@pytest.mark.parametrize("after_s", [None, 0.1])
def test_a_spawned_task_that_is_cancelled_on_purpose_is_no_failure(after_s: float | None, tmp_path: Path) -> None:
    begun = "" if after_s is None else f"await node.sleep({after_s}); "
    outcome = run(tmp_path, f"task = node.spawn(self.work(node)); {begun}task.cancel()")
    assert outcome.reasons == [Reason.FINISHED] * 2
    assert not outcome.events(0)  # of a coroutine that was never awaited, either


def test_the_failure_of_a_spawned_task_is_the_nodes_though_it_is_awaited(tmp_path: Path) -> None:
    start = "await asyncio.gather(node.spawn(self.work(node)), return_exceptions=True)"
    assert failure(run(tmp_path, start)).line == LINE


def test_a_spawned_task_gives_its_result(tmp_path: Path) -> None:
    start = "assert await node.spawn(self.work(node)) == 5"
    assert run(tmp_path, start, "return 5").reasons == [Reason.FINISHED] * 2


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("node.spawn(self.work)", "of an `async def`, not a method (TypeError)"),
        ("node.spawn(asyncio.create_task(self.work(node)))", "of an `async def`, not a Task (TypeError)"),
        ("await asyncio.sleep(1)", TIMER_REFUSED),
        ("async with asyncio.timeout(9.0): pass", TIMER_REFUSED),
        ("await asyncio.to_thread(print)", THREAD_REFUSED),
        ("asyncio.get_running_loop().run_in_executor(None, print)", THREAD_REFUSED),
        ("asyncio.get_running_loop().call_later(1, print)", TIMER_REFUSED),
    ],
)
def test_what_cannot_be_done_is_said_where_it_was_tried(start: str, words: str, tmp_path: Path) -> None:
    found = failure(run(tmp_path, start))
    assert words in found.message
    assert found.line == CALL


def test_a_callback_that_fails_ends_its_node(tmp_path: Path) -> None:
    found = failure(run(tmp_path, "asyncio.get_running_loop().call_soon(lambda: 1 / 0)"))
    assert (found.message, found.line) == ("division by zero (ZeroDivisionError)", CALL)


ENDING = """
        try:
            await node.sleep(99.0)
        finally:
            log(asyncio.current_task().get_name())
            {rest}
"""


@pytest.mark.parametrize("begun", ["node.spawn", "asyncio.create_task"])
@pytest.mark.parametrize("stubborn", ["", "await node.sleep(0.2)"])
def test_tasks_end_with_run(begun: str, stubborn: str, tmp_path: Path) -> None:
    start = f"for name in '01234': {begun}(self.work(node)).set_name(name)"
    outcome = run(tmp_path, start, ENDING.format(rest=stubborn))
    assert outcome.reasons == [Reason.FINISHED] * 2
    assert outcome.end(0).t == outcome.end(1).t == pytest.approx(4.04), "no time passes"
    assert (tmp_path / "log").read_text() == "01234"


def test_a_task_that_goes_on_though_it_is_cancelled_makes_the_node_fail(tmp_path: Path) -> None:
    lines = (
        "",
        "while True:",
        "    try:",
        "        await node.sleep(1.0)",
        "    except asyncio.CancelledError:",
        "        pass",
    )
    outcome = run(tmp_path, "node.spawn(self.work(node))", "\n        ".join(lines))
    assert outcome.reasons[0] is Reason.FAILED
    found = outcome.end(0).failure
    assert found is not None
    assert "must not catch CancelledError" in found.message


def test_a_task_that_fails_while_run_ends_is_a_failure(tmp_path: Path) -> None:
    fail = "\n        try:\n            await node.sleep(99.0)\n        finally:\n            1 / 0"
    found = run(tmp_path, "asyncio.create_task(self.work(node))", fail).end(0).failure
    assert found is not None
    assert (found.message, found.line) == ("division by zero (ZeroDivisionError)", LINE + 4)


def test_tasks_end_with_a_node_that_is_ended_early(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        CODE.format(
            start="for make in (node.spawn, asyncio.create_task): make(self.work(node)).set_name(make.__name__ + ' ')",
            fail=ENDING.format(rest=""),
        )
    )
    early = [(2.5, 0, Reason.STOPPED), (2.5, 1, Reason.STOPPED)]
    algorithm = {"name": f"{tmp_path / 'mine.py'}:Mine"}
    outcome = World(2, algorithm=algorithm, graph=full(2), rounds=9, early=early).run()
    assert outcome.reasons == [Reason.STOPPED] * 2
    assert (tmp_path / "log").read_text() == "spawn create_task "
