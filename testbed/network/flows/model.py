"""The fluid model: takes messages and reports news and the time of the next event.

Takes a `Network` and messages, gives `Sent`, `Delivered` and `Acknowledged`; touches nothing.

Between two *steps* all rates are constant. A step accounts for what was sent since the previous one, starts new
messages and new rounds of TCP, shares the links again, and plans the next step. While few connections are busy, that
is exactly the next event; with many, not before a fraction of a typical round trip has passed. Events in between are
still dated exactly, but their effects on others wait for the step. So a step's cost is shared by all its events, and a
lone flow is exact.
"""

from __future__ import annotations

import math

import numpy as np

from testbed.network.flows.arrivals import Arrivals, next_try_s
from testbed.network.flows.bandwidth_sharing import TWO_WAYS, Links, held_back, max_min, rtt_weighted
from testbed.network.flows.connections import Connections, TcpConnection, TransferPart
from testbed.network.flows.draws import Draws
from testbed.network.flows.queues import Queues
from testbed.network.flows.routes import FlowRoutes
from testbed.network.flows.settings import BandwidthSharing, Tcp
from testbed.network.flows.tcp import Windows
from testbed.network.flows.transfers import News, Transfer
from testbed.network.graph import Network

_FEW = 24
"""Up to so many busy connections, steps are exact."""
_EXACT_STEP_S = 1e-6
_INSTANT_S = 1e-9
"""Delay of the step that starts all messages handed over at one instant."""
_SHORTEST_STEP_S, _LONGEST_STEP_S = 1e-3, 1e-2
_STEPS_PER_ROUND_TRIP = 16
_NOTHING = 0.5
"""Bytes below this are rounding errors, since messages are whole bytes."""
_DEFAULT_TCP = Tcp()
_NO_SLOTS: Links = np.empty(0, dtype=np.intp)


class Flows:
    """All messages under way in one network."""

    def __init__(
        self,
        network: Network,
        *,
        seed: int,
        tcp: Tcp = _DEFAULT_TCP,
        sharing: BandwidthSharing = BandwidthSharing.MAX_MIN,
    ) -> None:
        self.now_s = 0.0
        self._seed = seed
        self._tcp = tcp
        self._sharing = sharing
        self._routes = FlowRoutes(network, tcp)
        self._state = Connections(no_link=network.link_count)
        self._windows = Windows(self._state, tcp)
        self._queues = Queues(self._state, tcp)
        self._pairs: dict[tuple[int, int], TcpConnection] = {}
        self._resets: dict[int, int] = {}
        self._starting: dict[tuple[int, int], float] = {}
        self._arrivals = Arrivals(self._state, tcp)
        self._stepped_s = 0.0
        self._step_s = math.inf
        self._busy = _NO_SLOTS
        self._sending = _NO_SLOTS
        self._is_shared_out = False
        self._quantum_s = _EXACT_STEP_S

    # What the runtime calls

    def connect(self, origin: int, dest: int) -> None:
        """Opens a connection before anything is sent; its handshake is over. Without a path, its first message does."""
        connection = self._connection(origin, dest)
        if connection.slot < 0:
            self._state.add(connection)
            self._reroute(connection)
            if connection.route is not None:
                self._open(connection, self.now_s)

    def send(self, origin: int, dest: int, size_bytes: int) -> Transfer:
        """Sends a message now. Those of one ordered pair leave and arrive in the order of these calls."""
        if origin == dest or size_bytes < 0:
            raise ValueError(f"cannot send {size_bytes} bytes from {origin} to {dest}")
        connection = self._connection(origin, dest)
        transfer = Transfer(origin, dest, size_bytes, connection.sent_count)
        connection.sent_count += 1
        size = float(max(size_bytes, 1))
        connection.queue.append(TransferPart(transfer, size))
        if (origin, dest) in self._starting:
            return transfer
        if self._is_draining(connection):
            self._state.queued[connection.slot] += size
        else:
            self._starting[origin, dest] = self.now_s
            self._step_soon()
        return transfer

    def cancel(self, transfer: Transfer, chunk_bytes: int = 65536) -> int:
        """Cancels what has not left, in whole chunks; returns the bytes that have left or will, as their chunk began.

        The transfer is never delivered, unless all of it had left.
        """
        gone = self.sent_bytes(transfer)
        if transfer.is_cancelled or transfer.has_left or gone >= transfer.size_bytes:
            return transfer.kept_bytes
        connection = self._pairs[transfer.origin, transfer.dest]
        place = next(place for place, part in enumerate(connection.queue) if part.transfer is transfer)
        part = connection.queue[place]
        transfer.is_cancelled = True
        transfer.kept_bytes = min((gone // chunk_bytes + 1) * chunk_bytes, transfer.size_bytes) if gone else 0
        cut, part.size_bytes = part.size_bytes - transfer.kept_bytes, float(transfer.kept_bytes)
        if not transfer.kept_bytes:
            del connection.queue[place]
        if (transfer.origin, transfer.dest) not in self._starting:
            self._cut(connection, place, cut, is_gone=not transfer.kept_bytes)
        elif not connection.queue:
            del self._starting[transfer.origin, transfer.dest]
        return transfer.kept_bytes

    def _cut(self, connection: TcpConnection, place: int, cut: float, *, is_gone: bool) -> None:
        """Shortens or removes a message in the queue of a busy connection."""
        state, slot = self._state, connection.slot
        state.queued[slot] -= cut
        if not connection.queue:
            state.is_busy[slot] = False
            state.queued[slot] = state.head[slot] = 0.0
        elif place == 0:
            state.head[slot] += (connection.queue[0].size_bytes if is_gone else 0.0) - cut
        self._step_soon()

    def sent_bytes(self, transfer: Transfer) -> int:
        """Bytes of a transfer that have left the sender by now."""
        connection = self._pairs[transfer.origin, transfer.dest]
        if transfer.has_left:
            return transfer.kept_bytes
        if connection.slot < 0 or not self._state.is_busy[connection.slot]:
            return 0
        # What has left since the last step is taken from the head of the queue.
        sent = self._moved_since_step(connection.slot) - float(self._state.head[connection.slot])
        for part in connection.queue:
            sent += part.size_bytes if part is connection.queue[0] else 0.0
            if part.transfer is transfer:
                return min(transfer.kept_bytes, max(0, int(sent + _NOTHING)))
            sent -= part.size_bytes
        return 0

    def last_sent_s(self, transfer: Transfer) -> float:
        """When anything last left on the connection of a transfer; 0 if nothing has."""
        slot = self._pairs[transfer.origin, transfer.dest].slot
        if slot < 0:
            return 0.0
        moved = self._moved_since_step(slot) if self._state.is_busy[slot] else 0.0
        if moved < _NOTHING:
            return float(self._state.last_sent_s[slot])
        return self._stepped_s + moved / float(self._state.rate[slot])

    def next_s(self) -> float:
        """Time of the next event; infinite when there is none."""
        return min(self._step_s, self._arrivals.next_s())

    def advance(self, to_s: float) -> list[News]:
        """Advances time, at most to `next_s`; returns the news of then, by destination, origin and number."""
        if to_s < self.now_s or to_s > self.next_s():
            raise ValueError(f"cannot go from {self.now_s} to {to_s}: the next thing happens at {self.next_s()}")
        self.now_s = to_s
        if self._step_s <= to_s:
            self._step()
        return self._arrivals.take(to_s)

    def change(self, network: Network) -> None:
        """Replaces the network; what is under way still arrives. Connections without a path stall.

        They retry after a retransmission timeout, then after twice that, and so on; the first attempt that finds a path
        resumes sending, with a window of one segment.
        """
        self._account()
        self._routes = FlowRoutes(network, self._tcp)
        if network.link_count != self._state.no_link:
            raise ValueError("a network does not get more or fewer links, they go up and down")
        for connection in self._state.by_slot:
            if self._state.is_busy[connection.slot]:
                self._reroute(connection)
        self._is_shared_out = False
        self._go_on()

    def reset(self, rank: int) -> None:
        """Removes a dead node's connections and all that they carry. A later send opens a new connection."""
        self._account()
        self._resets[rank] = self._resets.get(rank, 0) + 1
        self._arrivals.forget(rank)
        for pair, connection in self._pairs.items():
            if rank in pair:
                self._forget(connection)
        self._go_on()

    def _forget(self, connection: TcpConnection) -> None:
        pair = connection.origin, connection.dest
        for part in connection.queue:
            part.transfer.is_cancelled = True
            part.transfer.kept_bytes = 0
        connection.queue.clear()
        connection.draws = self._draws(*pair)
        connection.delivered_s = connection.held_s = 0.0
        self._starting.pop(pair, None)
        if connection.slot >= 0:
            state, slot = self._state, connection.slot
            state.is_busy[slot] = state.is_open[slot] = False
            state.queued[slot] = state.head[slot] = 0.0

    # Messages in and out

    def _connection(self, origin: int, dest: int) -> TcpConnection:
        pair = origin, dest
        if pair not in self._pairs:
            self._pairs[pair] = TcpConnection(origin, dest, self._draws(origin, dest))
        return self._pairs[pair]

    def _draws(self, origin: int, dest: int) -> Draws:
        return Draws(self._seed, origin, dest, self._resets.get(origin, 0) + self._resets.get(dest, 0))

    def _is_draining(self, connection: TcpConnection) -> bool:
        """Whether it still has something to send now, so that a further message follows directly."""
        slot = connection.slot
        if slot < 0 or not self._state.is_busy[slot]:
            return False
        return float(self._state.queued[slot]) - self._moved_since_step(slot) >= _NOTHING

    def _moved_since_step(self, slot: int) -> float:
        state = self._state
        room = min(float(state.budget[slot]), float(state.queued[slot]))
        return max(0.0, min(float(state.rate[slot]) * (self.now_s - self._stepped_s), room))

    def _step_soon(self) -> None:
        """Schedules the next step as early as allowed, since something was started or cancelled."""
        self._step_s = min(self._step_s, max(self.now_s + _INSTANT_S, self._stepped_s + self._quantum_s))

    # Steps

    def _step(self) -> None:
        self._account()
        self._go_on()

    def _account(self) -> None:
        """Accounts for everything sent since the last step."""
        state, sending, since_s = self._state, self._sending, self._stepped_s
        self._stepped_s = self.now_s
        elapsed_s = self.now_s - since_s
        if not sending.size or elapsed_s <= 0.0:
            return
        # Each array is looked up once, since that is most of the work.
        rate, budget, queued = state.rate[sending], state.budget[sending], state.queued[sending]
        moved = np.minimum(rate * elapsed_s, np.minimum(budget, queued))
        head, to_loss = state.head[sending] - moved, state.to_loss[sending] - moved
        state.budget[sending] = budget - moved
        state.queued[sending] = queued - moved
        state.head[sending] = head
        state.to_loss[sending] = to_loss
        state.round_sent[sending] += moved
        sent_for_s = moved / rate
        state.round_busy_s[sending] += sent_for_s
        state.last_sent_s[sending] = since_s + sent_for_s

        lost_at: dict[int, float] = {}
        is_lost = to_loss < 0.0
        if np.count_nonzero(is_lost):
            at = since_s + (moved + to_loss)[is_lost] / rate[is_lost]
            lost_at = dict(zip(sending[is_lost].tolist(), at.tolist(), strict=True))
        ended = head < _NOTHING
        if np.count_nonzero(ended):
            at = since_s + (moved + head)[ended] / rate[ended]
            for slot, at_s, bytes_s in zip(sending[ended].tolist(), at.tolist(), rate[ended].tolist(), strict=True):
                self._finish(slot, at_s, bytes_s, lost_at.pop(slot, math.inf))
        for slot, at_s in lost_at.items():
            self._arrivals.lose(state.by_slot[slot], at_s, float(state.queued[slot]))

    def _finish(self, slot: int, at_s: float, bytes_s: float, lost_s: float) -> None:
        """Finishes all messages whose last byte has left since the last step, the first of them at `at_s`."""
        state, connection = self._state, self._state.by_slot[slot]
        left = float(state.head[slot])
        while connection.queue and left < _NOTHING:
            if lost_s <= at_s:
                self._arrivals.lose(connection, lost_s, float(state.queued[slot]))
                lost_s = math.inf
            self._arrivals.leave(connection, connection.queue.popleft().transfer, min(at_s, self.now_s), self.now_s)
            if connection.queue:
                size = connection.queue[0].size_bytes
                left += size
                at_s += size / bytes_s
        if lost_s < math.inf:
            self._arrivals.lose(connection, lost_s, float(state.queued[slot]))
        state.head[slot] = left
        if not connection.queue:
            state.is_busy[slot] = False
            state.queued[slot] = state.head[slot] = 0.0

    def _go_on(self) -> None:
        """Starts what is due, shares the links, and plans the next step."""
        state = self._state
        begun = self._open_waiting()
        self._busy = state.is_busy[: state.slots].nonzero()[0]
        self._quantum_s = self._least_step_s()
        due = self._busy[state.round_end_s[self._busy] <= self.now_s]
        if due.size:
            asked = state.is_unanswered[due]
            over = self._windows.resume(due[~asked])
            if over.size:
                self._windows.next_round(over, self._quantum_s if self._quantum_s > _EXACT_STEP_S else 0.0)
            self._queues.look(self._busy, due[asked], over, begun, self._routes)
        elif begun:
            self._queues.look(self._busy, due, due, begun, self._routes)
        self._share()
        self._plan()

    def _open_waiting(self) -> list[int]:
        """Starts idle connections that have something to send, in the order of pairs; returns those that may send."""
        state = self._state
        begun = []
        for pair in sorted(self._starting):
            began_s = self._starting[pair]
            connection = self._pairs[pair]
            if connection.slot < 0:
                state.add(connection)
            slot = connection.slot
            state.is_busy[slot] = False
            if connection.routes is not self._routes:
                self._reroute(connection)
            if connection.route is None:
                connection.stalled_s = began_s
            elif not state.is_open[slot]:
                self._open(connection, self._arrivals.handshake_done_s(connection, began_s))
            if state.is_open[slot] and state.round_end_s[slot] > self.now_s:
                state.is_clocked[slot] = False
                if state.round_trips[slot] == 1.0:
                    state.before_pause[slot] = state.round_sent[slot]
                begun.append(slot)
            state.is_busy[slot] = True
            state.began_s[slot] = began_s
            state.head[slot] = connection.queue[0].size_bytes
            state.queued[slot] = math.fsum(part.size_bytes for part in connection.queue)
        self._starting.clear()
        return begun

    def _open(self, connection: TcpConnection, opened_s: float) -> None:
        connection.opened_s = opened_s
        self._windows.open(connection.slot, connection.opened_s)
        self._arrivals.draw_loss(connection)

    def _reroute(self, connection: TcpConnection) -> None:
        """Looks up the connection's path in the current network; without one it stalls, with a new one it retries."""
        state, slot, before = self._state, connection.slot, connection.route
        route = self._routes.route(connection.origin, connection.dest)
        connection.route, connection.routes = route, self._routes
        if route is None:
            if before is not None:
                connection.stalled_s = self.now_s
                if self.now_s < connection.opened_s:
                    state.is_open[slot] = False
            self._windows.stall(slot)
            return
        state.set_route(slot, route)
        if before is not None:
            if before.loss != route.loss and state.is_open[slot]:
                self._arrivals.draw_loss(connection)
            return
        if state.is_open[slot]:
            timeout_s = route.rtt_s + self._tcp.min_rto_s
            is_busy = bool(state.is_busy[slot])
            state.round_end_s[slot] = next_try_s(connection.stalled_s, timeout_s, self.now_s) if is_busy else self.now_s
            self._arrivals.draw_loss(connection)
        elif state.is_busy[slot]:
            began_s = next_try_s(connection.stalled_s, self._tcp.syn_timeout_s, self.now_s)
            self._open(connection, self._arrivals.handshake_done_s(connection, began_s))

    def _share(self) -> None:
        """Sets the rate of every flow that may send."""
        state = self._state
        sending = self._busy[state.room(self._busy) >= _NOTHING]
        before = self._sending
        if self._is_shared_out and sending.size == before.size and not np.count_nonzero(sending != before):
            return
        self._sending = sending
        self._is_shared_out = True
        if not sending.size:
            return
        links = state.links.take(sending, axis=0)
        if self._sharing is BandwidthSharing.MAX_MIN:
            rates = max_min(links, self._routes.capacity)
            if self._tcp.two_ways:
                waiting = np.maximum(1.0 - state.window[sending] / state.queued[sending], 0.0)
                slower = self._tcp.acknowledging + TWO_WAYS * waiting
                longer = held_back(rates, links, state.back.take(sending, axis=0), self._routes.capacity, slower)
                state.longer[sending] = longer
                rates /= 1.0 + longer
            state.rate[sending] = rates
        else:
            rtt_s, used = state.rtt_s[sending], state.most[sending]
            state.rate[sending] = rtt_weighted(links, self._routes.capacity, rtt_s, used)

    def _plan(self) -> None:
        state = self._state
        next_s = math.inf
        if self._sending.size:
            sending = self._sending
            until_s = np.minimum(state.room(sending), state.head[sending]) / state.rate[sending]
            next_s = self.now_s + float(until_s.min())
        if self._busy.size:
            next_s = min(next_s, float(state.round_end_s[self._busy].min()))
        self._step_s = max(next_s, self.now_s + self._quantum_s)

    def _least_step_s(self) -> float:
        """Least time between two steps."""
        if self._busy.size <= _FEW:
            return _EXACT_STEP_S
        typical_s = float(self._state.rtt_s[self._busy].mean()) / _STEPS_PER_ROUND_TRIP
        return min(max(typical_s, _SHORTEST_STEP_S), _LONGEST_STEP_S)
