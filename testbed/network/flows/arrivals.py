"""Arrival times of messages: latency, jitter, and delays by lost segments.

Takes `Connections` and times of departure, gives `Delivered` and `Acknowledged` at their times; touches nothing.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush

from testbed.network.flows.connections import Connections, TcpConnection
from testbed.network.flows.routes import FlowRoute
from testbed.network.flows.settings import Tcp
from testbed.network.flows.transfers import Acknowledged, Delivered, News, Sent, Transfer

_LONGEST_BACKOFF_S = 120.0
_MOST_TRIES = 15
"""After so many losses in a row a segment or handshake gets through: there Linux gives up the connection, after a
quarter of an hour, and the application opens another one."""

_STAGES = (Sent, Delivered, Acknowledged)
_Due = tuple[float, int, int, int, int, Transfer]
"""Time, destination, origin, number, stage, and transfer."""


class Arrivals:
    """Events under way to a receiver, or back to a sender."""

    def __init__(self, connections: Connections, tcp: Tcp) -> None:
        self._state = connections
        self._tcp = tcp
        self._news: list[_Due] = []

    def next_s(self) -> float:
        return self._news[0][0] if self._news else float("inf")

    def take(self, until_s: float) -> list[News]:
        """News up to a time, ordered by time, then by destination, origin and number."""
        found: list[News] = []
        while self._news and self._news[0][0] <= until_s:
            *_, stage, transfer = heappop(self._news)
            found.append(_STAGES[stage](transfer))
        return found

    def forget(self, rank: int) -> None:
        """Drops everything under way from or to this node."""
        self._news = [news for news in self._news if rank not in news[1:3]]
        heapify(self._news)

    def leave(self, connection: TcpConnection, transfer: Transfer, left_s: float, now_s: float) -> None:
        """Schedules the arrival of a message whose last byte has left, behind earlier ones, and its acknowledgement."""
        route = connection.present_route
        transfer.has_left = True
        if transfer.is_cancelled:
            return
        latency_s = route.latency_s
        if route.jitter_s > 0.0:
            latency_s = max(0.0, latency_s + route.jitter_s * connection.draws.normal(transfer.number))
        arrives_s = max(left_s + latency_s, connection.held_s, connection.delivered_s, now_s)
        connection.delivered_s = arrives_s
        key = transfer.dest, transfer.origin, transfer.number
        times_s = (max(left_s, now_s), arrives_s, arrives_s + route.return_s)
        for stage, at_s in enumerate(times_s):
            heappush(self._news, (at_s, *key, stage, transfer))

    def lose(self, connection: TcpConnection, at_s: float, left_bytes: float) -> None:
        """Loses the next segment: delivery of what follows waits until it has been retransmitted.

        Acknowledgements of later segments tell the sender a round trip later. Without such segments, only the
        retransmission timer does.
        """
        state, slot, route = self._state, connection.slot, connection.present_route
        if state.to_loss[slot] < 0.0 and state.lost[slot] == 0.0:
            state.before_loss[slot] = state.round_sent[slot] + state.to_loss[slot]
        while state.to_loss[slot] < 0.0:
            beyond = -float(state.to_loss[slot])
            is_last = left_bytes + beyond < self._tcp.mss_bytes
            self._send_again(connection, route, at_s, is_last=is_last)
            self.draw_loss(connection)
            state.to_loss[slot] -= beyond

    def _send_again(self, connection: TcpConnection, route: FlowRoute, at_s: float, *, is_last: bool) -> None:
        timeout_s = route.rtt_s + self._tcp.min_rto_s
        tries = connection.draws.failures(route.loss, _MOST_TRIES)
        again_s = at_s + (timeout_s if is_last else route.rtt_s) + _waited_s(timeout_s, tries)
        lost = 2.0 if tries else 1.0
        self._state.lost[connection.slot] = max(lost, float(self._state.lost[connection.slot]))
        connection.held_s = max(connection.held_s, again_s + route.latency_s)

    def draw_loss(self, connection: TcpConnection) -> None:
        """Draws the number of bytes to the connection's next lost segment."""
        segments = connection.draws.segments_until_loss(connection.present_route.loss)
        self._state.to_loss[connection.slot] = segments * self._tcp.mss_bytes

    def handshake_done_s(self, connection: TcpConnection, began_s: float) -> float:
        """When the handshake ends and the first message of a connection may leave."""
        if not self._tcp.handshake:
            return began_s
        route = connection.present_route
        tries = connection.draws.failures(route.loss, _MOST_TRIES)
        return began_s + route.rtt_s + _waited_s(self._tcp.syn_timeout_s, tries)


def _waited_s(timeout_s: float, tries: int) -> float:
    """Total time of consecutive retransmission timeouts, each twice as long as the previous one."""
    longest_s = max(timeout_s, _LONGEST_BACKOFF_S)
    return math.fsum(min(timeout_s * 2.0**number, longest_s) for number in range(tries))


def next_try_s(stalled_s: float, timeout_s: float, now_s: float) -> float:
    """The next retransmission: they occur at doubling intervals since the path was lost."""
    at_s = stalled_s + timeout_s
    while at_s < now_s:
        timeout_s = min(2.0 * timeout_s, _LONGEST_BACKOFF_S)
        at_s += timeout_s
    return at_s
