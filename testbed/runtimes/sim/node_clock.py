"""One node's view of virtual time: the same clock for all, but a node can be paused, and it can die.

Takes the clock, gives alarms; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.node.world import Alarm
from testbed.runtimes.sim.clock import VirtualClock


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
