"""Virtual time: an asyncio loop whose clock moves only when no coroutine has anything left to do.

Takes coroutines, runs them; touches nothing. Time jumps to the next alarm, or to the next thing that happens in
whatever else keeps time (`Ticking`), such as the network. Each node has its own view of it (`NodeClock`), since a node
can be paused, and can die. All that is due at one instant happens before time goes on,
and what is computed must not depend on the order within an instant: there is a test that shuffles it.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, TypeVar

from testbed.node.event_loop import TIMER_REFUSED, NodeLoop
from testbed.node.world import Alarm

_Result = TypeVar("_Result")


class Ticking(Protocol):
    """Something else that keeps time."""

    def next_s(self) -> float:
        """When it has something to do; infinity when never."""

    def advance(self, to_s: float) -> None:
        """Go to a time not later than `next_s()`, and do what is due then."""


class Stalled(Exception):
    """Coroutines are waiting, and nothing will ever happen again."""


class _Alarm:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """Emulated seconds, and what is to be called when."""

    def __init__(self) -> None:
        self._now = 0.0
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._numbers = count()
        self._ticking: list[Ticking] = []
        self._at_its_end: list[Callable[[], None]] = []
        self.on_stalled: Callable[[], None] | None = None
        self.on_cut: Callable[[], None] | None = None
        """The end is wanted at once: what tasks wait for must not come any more."""

    def now(self) -> float:
        return self._now

    def call_at(self, t: float, callback: Callable[[], None]) -> _Alarm:
        """Call at a time; at once (after all that is going on at this instant) for a time that is over."""
        alarm = _Alarm(callback)
        heappush(self._alarms, (max(t, self._now), next(self._numbers), alarm))
        return alarm

    def at_end_of_instant(self, callback: Callable[[], None]) -> None:
        """Call when all that happens at this instant has happened, before time moves on."""
        self._at_its_end.append(callback)

    def drive(self, ticking: Ticking) -> None:
        self._ticking.append(ticking)

    def jump(self) -> None:
        """Go to the next instant at which anything happens, and let it happen."""
        while self._alarms and self._alarms[0][2].cancelled:
            heappop(self._alarms)
        at = min((ticking.next_s() for ticking in self._ticking), default=math.inf)
        if self._alarms:
            at = min(at, self._alarms[0][0])
        if at > self._now and self._at_its_end:
            callbacks, self._at_its_end = self._at_its_end, []
            for callback in callbacks:
                callback()
            return  # they may have given tasks something to do
        if math.isinf(at):
            if self.on_stalled is None:
                raise Stalled
            self.on_stalled()
            return
        self._now = max(at, self._now)
        for ticking in self._ticking:
            ticking.advance(self._now)
        while self._alarms and self._alarms[0][0] <= self._now:
            alarm = heappop(self._alarms)[2]
            if not alarm.cancelled:
                alarm.callback()


class _NodeAlarm:
    __slots__ = ("alarm", "callback", "clock", "t", "work")

    def __init__(self, clock: NodeClock, t: float, callback: Callable[[], None], *, work: bool) -> None:
        self.clock = clock
        self.t = t
        self.callback = callback
        self.work = work
        self.alarm: Alarm | None = None

    def set(self) -> None:
        self.alarm = self.clock.base.call_at(self.t, self.ring)

    def ring(self) -> None:
        self.clock.alarms.discard(self)
        self.callback()

    def cancel(self) -> None:
        self.clock.alarms.discard(self)
        if self.alarm is not None:
            self.alarm.cancel()


class NodeClock:
    """Emulated time for one node. Work takes as much longer as the node was paused; other alarms ring late."""

    def __init__(self, base: VirtualClock) -> None:
        self.base = base
        self.alarms: set[_NodeAlarm] = set()
        self._paused_at: float | None = None

    def now(self) -> float:
        return self.base.now()

    def call_at(self, t: float, callback: Callable[[], None]) -> _NodeAlarm:
        return self._add(t, callback, work=False)

    def work_until(self, t: float, callback: Callable[[], None]) -> _NodeAlarm:
        """Call when work that would be done at a time really is."""
        return self._add(t, callback, work=True)

    def _add(self, t: float, callback: Callable[[], None], *, work: bool) -> _NodeAlarm:
        alarm = _NodeAlarm(self, t, callback, work=work)
        self.alarms.add(alarm)
        if self._paused_at is None:
            alarm.set()
        return alarm

    def pause(self) -> None:
        if self._paused_at is None:
            self._paused_at = self.now()
            for each in self.alarms:
                if each.alarm is not None:
                    each.alarm.cancel()

    def resume(self) -> None:
        if self._paused_at is None:
            return
        for_s = self.now() - self._paused_at
        self._paused_at = None
        for each in sorted(self.alarms, key=lambda alarm: alarm.t):
            if each.work:
                each.t += for_s
            each.set()

    def stop(self) -> None:
        """Nothing of this node's rings any more."""
        for each in list(self.alarms):
            each.cancel()


class _WhenIdle(selectors.DefaultSelector):
    """What asyncio asks for events of files: here, where virtual time goes on.

    The loop asks without a timeout exactly when nothing is ready to run.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            self._clock.jump()
        return super().select(0)


class _Loop(NodeLoop):
    """Has no time but the emulated one: code that sets a timer is told so at that place."""

    def call_at(self, *_arguments: Any, **_options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        raise RuntimeError(TIMER_REFUSED)


def run(clock: VirtualClock, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in virtual time, until it is done."""
    loop = _Loop(_WhenIdle(clock))
    try:
        return loop.run_until_complete(work)
    except KeyboardInterrupt:
        if clock.on_cut is not None:
            clock.on_cut()
        raise
    finally:
        _cancel_the_rest(loop)
        loop.close()


def _cancel_the_rest(loop: asyncio.AbstractEventLoop) -> None:
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
