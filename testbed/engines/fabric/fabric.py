"""The fabric itself: one thread that waits for packets, requests and times, and acts on them.

Takes a configuration; touches the sockets and files that it names, and the nodes' devices. It needs no privilege.

One round of the loop: wait (a timerfd knows when the next packet is due, the next change, the next second); read at
most one frame from every device that has any, so that nobody starves anybody (`intake`); write what is due, also in
between.
"""

from __future__ import annotations

import math
import signal
import socket
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from testbed.engines.fabric.capture import Captures
from testbed.engines.fabric.carrier import Carrier
from testbed.engines.fabric.conditions import Conditions, Presence
from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.delays import Delays
from testbed.engines.fabric.doors import ControlDoor, NodeDoor
from testbed.engines.fabric.intake import Intake
from testbed.engines.fabric.ports import Port, Ports, make_fit
from testbed.engines.fabric.reports import EVERY_S, Reports
from testbed.engines.fabric.server import answer
from testbed.engines.fabric.waiting import Waiting
from testbed.engines.kernel import Timer
from testbed.engines.tun import VNET_HEADER_BYTES, NotATun
from testbed.errors import UsageProblem
from testbed.network.change_words import words
from testbed.network.timeline import NodesChange
from testbed.protocol.fabric import (
    Applied,
    Attached,
    FabricStatus,
    FromFabric,
    NodeAttached,
    NodeDetached,
    NodeRefused,
    Refused,
    ToFabric,
)

_LONGEST_WORDS = 1000
_READ_AT_ONCE = 16
"""Frames, before what has become due meanwhile is written; the last look may read a few more."""


class Fabric:
    """A wide-area network between the nodes that attach themselves; nodes and control can reach it from now on."""

    def __init__(self, config: FabricConfig) -> None:
        topology = config.load_topology()
        if len(topology.nodes) != len(config.nodes):
            raise UsageProblem(f"the topology has {len(topology.nodes)} nodes, the plan {len(config.nodes)}")
        self._config = config
        self.conditions = Conditions(topology, config.seed)
        network = self.conditions.network()
        self._carrier = Carrier(
            network,
            config.addresses(),
            seed=config.seed,
            mtu=config.mtu,
            in_order=config.in_order,
            time_scale=config.time_scale,
        )
        self._presence = Presence(self.conditions.absent)
        self._carrier.packets.cut(0.0, *sorted(self._presence.cut))
        self._ports = Ports(len(config.nodes))
        self._intake = Intake(self._ports)
        self._reports = Reports(config, network, self._carrier, self._ports)
        self._captures = Captures()
        self._is_over = False
        self._started_s = self.clock()
        self._t0_s: float | None = None
        self._next_report_s = self._started_s + EVERY_S
        self._waiting = Waiting()
        self._timer = Timer()
        self._armed_s = math.inf
        self._waiting.add(self._timer.descriptor, self._timer.clear)
        self._doors: list[NodeDoor] = []
        self._told_of: set[int] = set()
        """Nodes of which control was told that they were refused."""
        self._control = ControlDoor(
            self._waiting, config.control_socket, self._answer, self._captures.forget, self.quit
        )
        for rank in range(len(config.nodes)):
            attach, refused = partial(self._attach, rank), partial(self._refused, rank)
            self._doors.append(NodeDoor(self._waiting, config.node_socket(rank), attach, refused))
        self._wake_on_signals()

    def _wake_on_signals(self) -> None:
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._waiting.add(self._woken.fileno(), self.quit)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno())

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carries packets until told to end; its files are complete then."""
        try:
            while not self._is_over:
                count = 0
                for port in self._waiting.ready_ports(self._due_s(), self._intake.holding):
                    if count >= _READ_AT_ONCE:
                        self._write()
                        count = 0
                    frames_before = port.frames_in
                    self._read(port)
                    count += port.frames_in - frames_before or 1  # one that was held costs as much
                self._write()
                self._reports.delays.overslept(self._waiting.overslept_s)
                if self.clock() >= self._next_event_s():
                    self._happen()
        finally:
            self._close()

    def clock(self) -> float:
        """Of the host."""
        return time.monotonic()

    def _due_s(self) -> float:
        """When to be awake for what is next, by the host's clock; if that is to come, the timer will wake us."""
        due_s = min(self._carrier.packets.next_s() + self._started_s, self._next_event_s()) - self._waiting.early_s
        if due_s > self.clock() and due_s != self._armed_s:
            self._timer.arm(due_s)
            self._armed_s = due_s
        return due_s

    def _read(self, port: Port) -> None:
        try:
            taken = self._intake.take(port, self._waiting.turn, self._waiting.arrived_s)
        except OSError as problem:
            self.detach(port.rank, f"its device cannot be read: {problem.strerror}", was_lost=True)
            return
        if taken is None:
            return
        data, since_s = taken
        started_s = self._started_s
        # Whatever is read in this turn was there when it began, however long the turn is.
        arrived_s = max(self._waiting.arrived_s - started_s, self._carrier.packets.now_s)
        wait = self._carrier.offer(arrived_s, port.rank, data, since_s - started_s)
        if wait is not None:
            self._reports.delays.read(*wait)
        if self._captures.files and (capture := self._captures.files.get(port.rank)):
            capture.add(data[VNET_HEADER_BYTES:])

    def _write(self) -> None:
        clock, started_s = self.clock, self._started_s
        write, written = self._ports.write, self._reports.delays.written
        for dest, due_s, data, packets, size_bytes, latency_s in self._carrier.advance(clock() - started_s):
            if write(dest, data, packets, size_bytes):
                written(clock() - started_s - due_s, latency_s, packets)
            if self._captures.files and (capture := self._captures.files.get(dest)):
                capture.add(b"".join(data)[VNET_HEADER_BYTES:])

    # -- times -----------------------------------------------------------------------------------------------------

    def _next_event_s(self) -> float:
        """When the next change or the next report is, by the host's clock."""
        if self._t0_s is None:
            return self._next_report_s
        return min(self._next_report_s, self._t0_s + self.conditions.next_s * self._config.time_scale)

    def _happen(self) -> None:
        t = self._t()
        while t is not None and self.conditions.next_s <= t:
            self._turn()
        now_s = self.clock()
        if now_s >= self._next_report_s:
            self._next_report_s += EVERY_S * (1 + (now_s - self._next_report_s) // EVERY_S)
            self._report()

    def _turn(self) -> None:
        """The timeline goes on."""
        turn = self.conditions.turn()
        now_s = self.clock() - self._started_s
        if turn.network is not None:
            self._carrier.packets.change(now_s, turn.network, turn.routes)
        for change in turn.changes:
            if isinstance(change, NodesChange):
                self._cut_or_not(now_s, self._presence.after(change))
        applied_s = self._t()
        for change in turn.changes:
            if not isinstance(change, NodesChange):
                told = words(change)[:_LONGEST_WORDS]
                self._control.tell(Applied(told, turn.at_s, turn.at_s if applied_s is None else applied_s))

    def _t(self) -> float | None:
        """Emulated seconds since the start barrier."""
        if self._t0_s is None:
            return None
        return (self.clock() - self._t0_s) / self._config.time_scale

    def _report(self, *, is_last: bool = False) -> None:
        self._carrier.release()
        self._reports.write(self._t(), is_last=is_last)
        self._captures.flush()

    # -- what nodes and control want -------------------------------------------------------------------------------

    def _attach(self, rank: int, descriptor: int) -> Attached | Refused:
        try:
            make_fit(descriptor)
        except NotATun as problem:
            return Refused(str(problem))
        again = self._ports.ports[rank].is_attached
        self.detach(rank, "replaced")
        self._waiting.add_port(self._ports.attach(rank, descriptor))
        self._control.tell(NodeAttached(rank, again))
        return Attached()

    def _refused(self, rank: int, why: str) -> None:
        """Once a node: it may go on for ever."""
        if rank not in self._told_of:
            self._told_of.add(rank)
            self._control.tell(NodeRefused(rank, why, max(0.0, self._t() or 0.0)))

    def detach(self, rank: int, why: str, *, was_lost: bool = False) -> None:
        """The node's descriptor is closed, if there is one."""
        port = self._ports.ports[rank]
        if port.is_attached:
            self._waiting.remove_port(port)
            self._ports.detach(rank)
            self._intake.forget(rank)
            self._control.tell(NodeDetached(rank, why, was_lost))

    def _answer(self, request: ToFabric, asker: int) -> FromFabric:
        return answer(request, asker, self)

    def node_count(self) -> int:
        return len(self._config.nodes)

    def begin(self, monotonic_s: float) -> None:
        """What was late before was late while everything started."""
        if self._t0_s is not None:
            raise UsageProblem("the run has begun already")
        self._t0_s = monotonic_s
        self._reports.delays = Delays(self._config.time_scale, self.clock())

    def change_network(self) -> float:
        """The packets meet the conditions as they are now; gives since when."""
        now_s = self.clock()
        self._carrier.packets.change(now_s - self._started_s, self.conditions.network())
        return now_s

    def cut(self, ranks: Iterable[int], *, cut: bool) -> float:
        """Nodes are cut off or brought back; gives since when."""
        now_s = self.clock()
        self._cut_or_not(now_s - self._started_s, self._presence.change(ranks, cut=cut))
        return now_s

    def _cut_or_not(self, now_s: float, changed: Iterable[tuple[int, bool]]) -> None:
        changes = list(changed)
        if gone := [rank for rank, is_cut in changes if is_cut]:
            self._carrier.packets.cut(now_s, *gone)
        if back := [rank for rank, is_cut in changes if not is_cut]:
            self._carrier.packets.uncut(now_s, *back)

    def capture(self, rank: int, path: Path | None, asker: int) -> None:
        """What the node sees goes to a file, or no longer does."""
        if path is None:
            self._captures.end(rank, asker)
        else:
            self._captures.begin(rank, path, asker)

    def status(self, number: int) -> FabricStatus:
        return self._reports.status(number, self._t(), self._presence.cut)

    def quit(self) -> None:
        """The loop ends after this round."""
        self._is_over = True

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._report(is_last=True)
        self._reports.close()
        self._captures.close()
        self._ports.close()
        self._control.close()
        for door in self._doors:
            door.close()
        for end in (self._waker, self._woken):
            end.close()
        self._timer.close()
        self._waiting.close()
