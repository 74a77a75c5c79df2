"""Starts test traffic between pairs of nodes: echo probes, datagram streams, TCP flows.

Takes pairs and how much to send, gives what was sent and what arrived; orders it from the nodes' probe processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.verify.network import FIRST_PORT, PATIENCE_S, Running, answer_of
from testbed.verify.pairs import Pair
from testbed.verify.probe_protocol import (
    DatagramsReceived,
    DatagramsSent,
    Echo,
    Echoed,
    ReceiveDatagrams,
    Respond,
    Responded,
    SendDatagrams,
    TcpReceive,
    TcpReceived,
    TcpSend,
    TcpSent,
)
from testbed.verify.sizing import EchoNeed, StreamNeed, Task

_STREAM_PORTS = 16
"""Of each stream: several sockets hold more than one while the receiver waits for the processor."""
_FIRST_TCP_PORT = FIRST_PORT + 1000


def order_echo(pair: Pair, need: EchoNeed, place: int, start_s: float, running: Running) -> tuple[int, int, float]:
    """Returns the numbers of both orders, and how long they take; `place` distinguishes concurrent ones."""
    nodes = running.nodes
    responding, asking = nodes.number(), nodes.number()
    until_s = start_s + need.count * need.most_gap_s + need.patience_s
    port = FIRST_PORT + place
    nodes.order(pair.dest, Respond(responding, port, until_s))
    dest = running.addresses[pair.dest]
    gaps = (need.least_gap_s, need.most_gap_s)
    nodes.order(pair.origin, Echo(asking, dest, port, start_s, need.count, *gaps, need.patience_s, place))
    return responding, asking, until_s


def echo_all(
    jobs: Sequence[tuple[Pair, EchoNeed]], running: Running, flows: Sequence[TcpFlow] = (), after_s: float = 0.0
) -> list[tuple[Responded, Echoed]]:
    """Probes all pairs at once, `after_s` after these flows have begun; occasional probes do not disturb each other."""
    opened = _order_tcp_flows(flows, running)
    orders = [order_echo(pair, need, place, after_s, running) for place, (pair, need) in enumerate(jobs)]
    numbers = {number for *both, _ in orders for number in both}
    numbers.update(number for both in opened for number in both)
    longest_s = max((*(until_s for *_, until_s in orders), *(each.seconds for each in flows)), default=0.0)
    answers = running.nodes.answers(numbers, running.nodes.begin(numbers) + longest_s + PATIENCE_S)
    return [
        (answer_of(Responded, answers, responding), answer_of(Echoed, answers, asking))
        for responding, asking, _ in orders
    ]


def stream_all(
    wave: Sequence[Task[tuple[Pair, StreamNeed]]], running: Running
) -> Iterator[tuple[Pair, StreamNeed, DatagramsSent, DatagramsReceived]]:
    """Runs all streams at once."""
    nodes = running.nodes
    numbers = []
    longest_s = 0.0
    for place, work in enumerate(wave):
        pair, need = work.job
        ports = tuple(range(FIRST_PORT + place * _STREAM_PORTS, FIRST_PORT + (place + 1) * _STREAM_PORTS))
        receiving, sending = nodes.number(), nodes.number()
        until_s = need.seconds + need.patience_s
        nodes.order(pair.dest, ReceiveDatagrams(receiving, ports, until_s, need.count, need.settling_s))
        dest = running.addresses[pair.dest]
        nodes.order(pair.origin, SendDatagrams(sending, dest, ports, need.count, need.per_s, need.size_bytes))
        numbers.append((receiving, sending))
        longest_s = max(longest_s, until_s)
    all_numbers = {number for both in numbers for number in both}
    answers = nodes.answers(all_numbers, nodes.begin(all_numbers) + longest_s + PATIENCE_S)
    for work, (receiving, sending) in zip(wave, numbers, strict=True):
        yield (*work.job, answer_of(DatagramsSent, answers, sending), answer_of(DatagramsReceived, answers, receiving))


@dataclass(frozen=True, slots=True)
class TcpFlow:
    """A TCP flow to start."""

    pair: Pair
    warm_s: float
    """Bytes that arrive earlier are not counted."""
    seconds: float
    """Total duration."""


@dataclass(frozen=True, slots=True)
class TcpRate:
    """The result of one flow."""

    bits_per_s: float
    congestion: str
    """The congestion control in use."""


def _order_tcp_flows(wanted: Sequence[TcpFlow], running: Running) -> list[tuple[int, int]]:
    """Numbers of the orders to the receiver and to the sender, by flow."""
    nodes = running.nodes
    numbers = []
    for place, each in enumerate(wanted):
        receiving, sending = nodes.number(), nodes.number()
        port = _FIRST_TCP_PORT + place
        nodes.order(each.pair.dest, TcpReceive(receiving, port, each.warm_s, each.seconds))
        nodes.order(each.pair.origin, TcpSend(sending, running.addresses[each.pair.dest], port, each.seconds))
        numbers.append((receiving, sending))
    return numbers


def tcp_rates(wanted: Sequence[TcpFlow], running: Running) -> list[TcpRate]:
    """Runs all flows at once; results in the order of the flows."""
    numbers = _order_tcp_flows(wanted, running)
    all_numbers = {number for both in numbers for number in both}
    longest_s = max((each.seconds for each in wanted), default=0.0)
    answers = running.nodes.answers(all_numbers, running.nodes.begin(all_numbers) + longest_s + PATIENCE_S)
    return [
        TcpRate(answer_of(TcpReceived, answers, receiving).bits_per_s, answer_of(TcpSent, answers, sending).congestion)
        for receiving, sending in numbers
    ]
