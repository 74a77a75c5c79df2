"""The event loop of processes in which nodes live.

Takes tasks and callbacks; gives tasks that an algorithm makes, and exceptions of its callbacks, to the node. Refuses
what would take the host's time instead of emulated time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

from testbed.node.background import current

_Result = TypeVar("_Result")

TIMER_REFUSED = "asyncio's own timers know nothing of emulated time: use node.sleep and timeout_s"
THREAD_REFUSED = "threads know nothing of emulated time: call the function itself, without asyncio.to_thread"


class NodeLoop(asyncio.SelectorEventLoop):
    """Code of testbed itself uses it like any other loop; code of an algorithm belongs to its node."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        super().__init__(selector)
        self.set_exception_handler(_tell_node)

    def create_task(self, work: Coroutine[Any, Any, _Result], **options: Any) -> asyncio.Task[_Result]:  # type: ignore[override]
        """A task; one that an algorithm makes ends with its node."""
        node = current(options.get("context"))
        if node is None:
            return super().create_task(work, **options)
        task = super().create_task(node.guarded(work), **options)
        node.add(task)
        return task

    def call_at(self, *arguments: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        """A timer of the host's time, for code of testbed alone."""
        if current() is not None:
            raise RuntimeError(TIMER_REFUSED)
        return super().call_at(*arguments, **options)

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """A thread, for code of testbed alone."""
        if current() is not None:
            raise RuntimeError(THREAD_REFUSED)
        return super().run_in_executor(*arguments)


def _tell_node(loop: asyncio.AbstractEventLoop, said: dict[str, Any]) -> None:
    """Makes an exception in a callback of an algorithm a failure of its node; prints all others, as asyncio does."""
    handle, problem = said.get("handle"), said.get("exception")
    context: Context | None = getattr(handle, "_context", None)
    node = None if context is None else current(context)
    if node is None or not isinstance(problem, Exception):
        loop.default_exception_handler(said)
    else:
        node.fail(problem)
