"""The emulated clock of runs of real processes.

Takes the moment of the start barrier, gives emulated seconds and alarms; reads the host's monotonic clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from testbed.node.background import outside_of_algorithms


class RealClock:
    """t = (monotonic - t0) / time_scale; for use inside a running event loop."""

    def __init__(self, t0: float, time_scale: float = 1.0) -> None:
        """`t0` is a time of `time.monotonic`, which all processes of a host share; it may be in the future."""
        if not time_scale > 0:
            raise ValueError("a time scale is above 0")
        self.t0 = t0
        self.time_scale = time_scale
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return self.at(time.monotonic())

    def at(self, monotonic_s: float) -> float:
        """Emulated seconds at a time of `time.monotonic`."""
        return (monotonic_s - self.t0) / self.time_scale

    def call_at(self, t: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Calls at that time, or at once if it has passed; never earlier."""
        # The loop's clock is the same one, but that is not documented.
        delay_s = self.t0 + t * self.time_scale - time.monotonic()
        with outside_of_algorithms():
            return self._loop.call_later(max(0.0, delay_s), callback)
