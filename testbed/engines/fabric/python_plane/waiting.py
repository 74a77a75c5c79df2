"""What the data plane waits for: frames from devices, the time when something is due, and the control plane.

Takes ports, gives those that are readable; touches an epoll and a timer of its own.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from testbed.engines.fabric.python_plane.ports import Port
from testbed.engines.kernel import Timer

HEARTBEAT_S = 0.01
"""So that a process which does not get the processor finds out, though nothing else is to be done."""
_AT_ONCE_S = 0.0001
"""A call that takes no longer has not waited."""
_LONGEST_WAKING_S = 0.0003
"""What takes longer is no waking up, but a machine with other things to do."""
_STEP_S = 5e-6
"""By which the usual time to wake up follows what is seen: up and down as often, where half of all take longer."""
_CREEP_S = 1e-6
"""By which the least time to wake up may grow again each time, as when a machine has become slower."""
_EARLY_SHARE = 0.1
"""Of the time that it has slept, this process may be awake too early, and look again and again until it is time."""

_NONE: Mapping[int, Port] = MappingProxyType({})


class Waiting:
    """Waits in turns, and knows since when each port may have had something to read."""

    def __init__(self, wakeup: int) -> None:
        """`wakeup` is a descriptor that is readable when the control plane has something to do."""
        self._epoll = select.epoll()
        self._timer = Timer()
        self._armed_s = math.inf
        self._wakeup = wakeup
        for descriptor in (self._timer.descriptor, wakeup):
            self._epoll.register(descriptor, select.EPOLLIN)
        self._ports: dict[int, Port] = {}
        self.is_woken = False
        """The control plane has something to do, as of this turn."""
        self.turn = 0
        """Number of the turn; a port's is the same when its device is readable in it."""
        self._polled_s = time.monotonic()
        self._waking_s = 0.0
        """Half of the times that a timer went off in this process' sleep, it took longer until the process ran."""
        self._quickest_s = 0.0
        """It hardly ever took less: what woke it came so long before, and still no packet is faster than its path."""
        self.early_s = 0.0
        """How much before its time something is to wake it."""
        self._early_until_s = -math.inf
        self.arrived_s = -math.inf
        """When, at the latest, what was ready in this turn has come, by the host's clock."""
        self.overslept_s = 0.0
        """By how much the last call has returned later than it was to: nobody looked after anything meanwhile."""

    def add_port(self, port: Port) -> None:
        self._ports[port.descriptor] = port
        self._epoll.register(port.descriptor, select.EPOLLIN)

    def remove_port(self, port: Port) -> None:
        """To be called before it is closed: the node may have kept a descriptor of the same open file."""
        self._epoll.unregister(port.descriptor)
        del self._ports[port.descriptor]

    def ready_ports(self, due_s: float, holding: Mapping[int, Port] = _NONE) -> Iterator[Port]:
        """The devices that have something to read, all of them, and then others of which something was read before.

        Waits for that until a time of the host's clock, though not for long, or a moment less where waking up takes so
        long. A port then knows since when it may have had something: it had nothing when all were last asked.
        """
        asked_s = time.monotonic()
        due_s -= self.early_s
        if due_s > asked_s and due_s != self._armed_s:
            self._timer.arm(due_s)
            self._armed_s = due_s
        by_s = asked_s if holding else min(max(due_s, asked_s), asked_s + HEARTBEAT_S)
        timeout_s = HEARTBEAT_S if due_s > asked_s and not holding else 0.0
        ready = self._epoll.poll(timeout_s, len(self._ports) + 2)
        empty_s, self._polled_s = self._polled_s, time.monotonic()
        self.overslept_s = max(0.0, self._polled_s - by_s)
        self.arrived_s = self._polled_s
        if timeout_s and self._polled_s - asked_s > _AT_ONCE_S:
            # Nobody had anything, or there would have been nothing to wait for; but who oversleeps has not looked.
            empty_s = min(self._polled_s, by_s)
            self._woke(asked_s, due_s)
        elif self._polled_s > self._early_until_s:
            self.early_s = 0.0
        self.turn += 1
        self.is_woken = False
        for descriptor, _ in ready:
            port = self._ports.get(descriptor)
            if port is not None:
                if port.turn != self.turn - 1:
                    port.was_empty(empty_s)
                port.turn = self.turn
                yield port
            elif descriptor == self._wakeup:
                self.is_woken = True
            elif descriptor == self._timer.descriptor:
                self._timer.clear()
        if holding:
            yield from [port for port in holding.values() if port.turn != self.turn]

    def _woke(self, asked_s: float, due_s: float) -> None:
        """Of what comes while it sleeps, this process learns later, by as much as of a timer that goes off."""
        if asked_s < due_s < min(self._polled_s, asked_s + HEARTBEAT_S):
            took_s = self._polled_s - due_s
            step_s = _STEP_S if took_s > self._waking_s else -_STEP_S
            self._waking_s = min(max(0.0, self._waking_s + step_s), _LONGEST_WAKING_S)
            self._quickest_s = min(self._quickest_s + _CREEP_S, took_s, _LONGEST_WAKING_S)
        self.arrived_s = max(asked_s, self._polled_s - self._quickest_s)
        may_take_s = _EARLY_SHARE * (self._polled_s - asked_s)
        self.early_s = self._waking_s if self._waking_s <= may_take_s else 0.0
        self._early_until_s = self._polled_s + may_take_s

    def close(self) -> None:
        self._timer.close()
        self._epoll.close()
