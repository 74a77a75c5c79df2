"""The tasks of a node beside its `run`: those given to `node.spawn`, and those that its code makes with asyncio.

Takes coroutines, gives the first failure among them; touches nothing. No task outlives its node, and none fails without
the node. Python counts an exception of a task as retrieved as soon as something awaits the task; until then, only the
task knows of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from testbed.code import problem_in

_Result = TypeVar("_Result")

_TURNS = 10
"""Turns of the event loop after which an exception counts as not retrieved, and a task as not cancelled."""
_ATTEMPTS = 10
"""How often a task is cancelled that goes on all the same."""


class Background:
    """All tasks of one life of a node, except for its roles."""

    def __init__(self, source: str) -> None:
        """`source`: the module or file of the algorithm, for failures without a place of their own."""
        self._source = source
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """Those that go on, in the order in which they were made."""
        self._doubtful = 0
        """Tasks that have failed, and whose exceptions may still be retrieved."""
        self._failure: BaseException | None = None
        self._has_failed = asyncio.Event()
        self._is_over = False
        """No task may go on, though those that there are may still tidy up."""
        self._is_dead = False

    def spawn(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        """Starts a task whose failure is the node's, even if another task awaits it. Raises TypeError."""
        if not inspect.iscoroutine(work):
            kind = type(work).__name__
            raise TypeError(f"node.spawn takes a coroutine, such as listen(node) of an `async def`, not a {kind}")
        with self.entered():
            task = asyncio.get_running_loop().create_task(self._spawned(work))
        task.add_done_callback(lambda _: work.close())  # it may never have begun
        return task

    @contextmanager
    def entered(self) -> Iterator[None]:
        """While entered, new tasks and callbacks belong to this node, whatever code makes them."""
        token = _LIFE.set(self)
        try:
            yield
        finally:
            _LIFE.reset(token)

    def enter(self) -> None:
        """From now on, all that the current task makes belongs to this node."""
        _LIFE.set(self)

    def fail(self, problem: BaseException) -> None:
        """Makes this the node's failure, unless there is one already."""
        if self._failure is None:
            self._failure = problem_in(self._source, problem) if isinstance(problem, SystemExit) else problem
            self._has_failed.set()

    async def failed(self) -> None:
        """Waits until a task has failed, and raises its exception."""
        await self._has_failed.wait()
        assert self._failure is not None  # noqa: S101 - it was set before
        raise self._failure

    async def end(self) -> None:
        """Cancels all tasks in the order in which they were made, and waits until they have ended.

        No emulated time passes: a task that waits again while it is being cancelled is cancelled again. One that does
        not end at all makes the node fail.
        """
        self._is_over = True
        for _ in range(_ATTEMPTS):
            for task in list(self._tasks):
                task.cancel()
            for _ in range(_TURNS):
                if not (self._tasks or self._doubtful):
                    return
                await asyncio.sleep(0)
        self._is_dead = True
        self.fail(RuntimeError("a background task goes on though it was cancelled: it must not catch CancelledError"))
        for task in list(self._tasks):
            task.cancel()

    # -- for the event loop ----------------------------------------------------------------------------------------

    def guarded(self, work: Coroutine[Any, Any, _Result]) -> Coroutine[Any, Any, _Result]:
        """The work of any task of this node. An attempt to exit becomes a failure with its place."""
        return _Guarded(self, work)

    def step(self, work: Callable[..., Any], *arguments: object) -> Any:
        """A step of a task, until it next waits; none of a node that is dead."""
        if self._is_dead:
            raise asyncio.CancelledError
        try:
            return work(*arguments)
        except SystemExit as problem:
            raise problem_in(self._source, problem) from problem

    def add(self, task: asyncio.Task[Any]) -> None:
        """A task was made by code of this node."""
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        if self._is_over:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if _is_unretrieved(task):
            self._doubtful += 1
            self._look(task, _TURNS)

    def _look(self, task: asyncio.Task[Any], turns: int) -> None:
        """Whether something awaits the task shows within a few turns: then the exception is there."""
        if turns and _is_unretrieved(task):
            asyncio.get_running_loop().call_soon(self._look, task, turns - 1)
            return
        self._doubtful -= 1
        if _is_unretrieved(task):
            problem = task.exception()
            assert problem is not None  # noqa: S101 - it is there and was not retrieved
            self.fail(problem)

    async def _spawned(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return await work
        except asyncio.CancelledError as problem:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self.fail(problem_in(self._source, problem))
            raise
        except BaseException as problem:
            self.fail(problem)
            raise


class _Guarded(Coroutine[Any, Any, _Result]):
    """A coroutine whose every step its node allows."""

    def __init__(self, node: Background, work: Coroutine[Any, Any, _Result]) -> None:
        self._node = node
        self._work = work

    def send(self, value: object) -> Any:
        return self._node.step(self._work.send, value)

    def throw(self, *problem: Any) -> Any:
        return self._node.step(self._work.throw, *problem)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, _Result]:
        return self._work.__await__()


_LIFE: ContextVar[Background | None] = ContextVar("life", default=None)
"""Whose code is running."""


def current(context: Context | None = None) -> Background | None:
    """The tasks of the node whose code is running, or would run in that context; None for code of testbed itself."""
    return _LIFE.get() if context is None else context.get(_LIFE)


@contextmanager
def outside_of_algorithms() -> Iterator[None]:
    """While entered, the code that runs is testbed's own, though an algorithm has called it."""
    token = _LIFE.set(None)
    try:
        yield
    finally:
        _LIFE.reset(token)


def first_of(problem: BaseException) -> BaseException:
    """The first exception in a group, such as that of a `TaskGroup`; any other exception as it is."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


def _is_unretrieved(task: asyncio.Task[Any]) -> bool:
    """Whether a task has an exception of which no code knows; asyncio has no public name for that."""
    return bool(task._log_traceback)
