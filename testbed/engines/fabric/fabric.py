"""The fabric itself: the control plane of a network, one thread that it shares with its data plane.

Takes a configuration; touches the sockets and files that it names. It needs no privilege.

The data plane carries packets until the control plane has something to do: a request, a change of the timeline, a
report each second. `data_plane` says what is asked of it.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from testbed.engines.fabric.captures import Captures
from testbed.engines.fabric.conditions import Conditions, Presence
from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.data_plane import Setup
from testbed.engines.fabric.delays import limits
from testbed.engines.fabric.dispatcher import Dispatcher
from testbed.engines.fabric.listeners import ControlListener, NodeListener
from testbed.engines.fabric.planes import PLANES, choose
from testbed.engines.fabric.reports import EVERY_S, Reports
from testbed.engines.fabric.server import answer
from testbed.engines.tun import NotATun
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


class Fabric:
    """A wide-area network between the nodes that attach themselves; nodes and control can reach it from now on."""

    def __init__(self, config: FabricConfig) -> None:
        topology = config.load_topology()
        if len(topology.nodes) != len(config.nodes):
            raise UsageProblem(f"the topology has {len(topology.nodes)} nodes, the plan {len(config.nodes)}")
        self._config = config = replace(config, data_plane=choose(config.data_plane).name)
        self.conditions = Conditions(topology, config.seed)
        network = self.conditions.network()
        self._presence = Presence(self.conditions.absent)
        self._dispatcher = Dispatcher()
        self._plane = PLANES[config.data_plane](
            Setup(
                network=network,
                addresses=config.addresses(),
                cut=sorted(self._presence.cut),
                seed=config.seed,
                mtu=config.mtu,
                in_order=config.in_order,
                time_scale=config.time_scale,
                limits=limits(config.time_scale),
                wakeup=self._dispatcher.fileno(),
            )
        )
        self._reports = Reports(config, network, self._plane)
        self._captures = Captures(self._plane)
        self._is_over = False
        self._t0_s: float | None = None
        self._next_report_s = time.monotonic() + EVERY_S
        self._told_of: set[int] = set()
        """Nodes of which control was told that they were refused."""
        self._control = ControlListener(
            self._dispatcher, config.control_socket, self._answer, self._captures.forget, self.quit
        )
        self._nodes = [self._listen_to(rank) for rank in range(len(config.nodes))]
        self._wake_on_signals()

    def _listen_to(self, rank: int) -> NodeListener:
        path = self._config.node_socket(rank)
        return NodeListener(self._dispatcher, path, partial(self._attach, rank), partial(self._refused, rank))

    def _wake_on_signals(self) -> None:
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._dispatcher.add(self._woken.fileno(), self.quit)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno())

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carries packets until told to end; its files are complete then."""
        try:
            while not self._is_over:
                for lost in self._plane.run(self._next_event_s()):
                    self._control.tell(NodeDetached(lost.port, lost.why, was_lost=True))
                self._dispatcher.dispatch()
                if self.clock() >= self._next_event_s():
                    self._happen()
        finally:
            self._close()

    def clock(self) -> float:
        """Of the host."""
        return time.monotonic()

    # -- times -----------------------------------------------------------------------------------------------------

    def _next_event_s(self) -> float:
        """When the next change or the next report is, or a socket has rested, by the host's clock."""
        next_s = min(self._next_report_s, self._dispatcher.next_s)
        return next_s if self._t0_s is None else min(next_s, self._host_s(self._t0_s, self.conditions.next_s))

    def _happen(self) -> None:
        now_s = self.clock()
        while self._t0_s is not None and self._host_s(self._t0_s, self.conditions.next_s) <= now_s:
            self._turn(self._t0_s)
        now_s = self.clock()
        if now_s >= self._next_report_s:
            self._next_report_s += EVERY_S * (1 + (now_s - self._next_report_s) // EVERY_S)
            self._report()

    def _turn(self, t0_s: float) -> None:
        """The timeline goes on: at the time that it says, or as soon after it as the data plane can."""
        turn = self.conditions.turn()
        planned_s = since_s = self._host_s(t0_s, turn.at_s)
        if turn.network is not None:
            since_s = self._plane.change(planned_s, turn.network, turn.routes)
        for change in turn.changes:
            if isinstance(change, NodesChange):
                self._cut_or_not(planned_s, self._presence.after(change))
        applied_s = turn.at_s + max(0.0, since_s - planned_s) / self._config.time_scale
        for change in turn.changes:
            if not isinstance(change, NodesChange):
                self._control.tell(Applied(words(change)[:_LONGEST_WORDS], turn.at_s, applied_s))

    def _host_s(self, t0_s: float, t: float) -> float:
        """When it is so many emulated seconds, by the host's clock."""
        return t0_s + t * self._config.time_scale

    def _t(self) -> float | None:
        """Emulated seconds since the start barrier."""
        if self._t0_s is None:
            return None
        return (self.clock() - self._t0_s) / self._config.time_scale

    def _report(self, *, is_last: bool = False) -> None:
        self._reports.write(self._t(), is_last=is_last)

    # -- what nodes and control want -------------------------------------------------------------------------------

    def _attach(self, rank: int, descriptor: int) -> Attached | Refused:
        try:
            again = self._plane.attach(rank, descriptor)
        except NotATun as problem:
            return Refused(str(problem))
        if again:
            self._control.tell(NodeDetached(rank, "replaced"))
        self._control.tell(NodeAttached(rank, again))
        return Attached()

    def _refused(self, rank: int, why: str) -> None:
        """Once a node: it may go on for ever."""
        if rank not in self._told_of:
            self._told_of.add(rank)
            self._control.tell(NodeRefused(rank, why, max(0.0, self._t() or 0.0)))

    def detach(self, rank: int, why: str) -> None:
        """The node's descriptor is closed, if there is one."""
        if self._plane.detach(rank):
            self._control.tell(NodeDetached(rank, why))

    def _answer(self, request: ToFabric, asker: int) -> FromFabric:
        return answer(request, asker, self)

    def node_count(self) -> int:
        return len(self._config.nodes)

    def begin(self, monotonic_s: float) -> None:
        """What was late before was late while everything started."""
        if self._t0_s is not None:
            raise UsageProblem("the run has begun already")
        self._t0_s = monotonic_s
        self._plane.restart_delays()

    def change_network(self) -> float:
        """The packets meet the conditions as they are now; gives since when."""
        return self._plane.change(self.clock(), self.conditions.network())

    def cut(self, ranks: Iterable[int], *, cut: bool) -> float:
        """Nodes are cut off or brought back; gives since when."""
        now_s = self.clock()
        self._cut_or_not(now_s, self._presence.change(ranks, cut=cut))
        return now_s

    def _cut_or_not(self, at_s: float, changed: Iterable[tuple[int, bool]]) -> None:
        changes = list(changed)
        if gone := [rank for rank, is_cut in changes if is_cut]:
            self._plane.cut(at_s, gone)
        if back := [rank for rank, is_cut in changes if not is_cut]:
            self._plane.uncut(at_s, back)

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
        self._control.close()  # first: captures end with the connections that have asked for them
        self._plane.close()
        for each in self._nodes:
            each.close()
        for end in (self._waker, self._woken):
            end.close()
        self._dispatcher.close()
