"""TCP connections between pairs, as fast as they go.

Takes pairs and times, gives rates; touches the nodes that measure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.verify.network import FIRST_PORT, HEADSTART_S, PATIENCE_S, Running, answer_of
from testbed.verify.orders import TcpReceive, TcpReceived, TcpSend, TcpSent
from testbed.verify.pairs import Pair

_FIRST_PORT = FIRST_PORT + 1000


@dataclass(frozen=True, slots=True)
class Connection:
    """One to come."""

    pair: Pair
    warm_s: float
    """What comes earlier is not counted."""
    seconds: float
    """In all."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What one connection did."""

    bits_per_s: float
    congestion: str
    """The congestion control in use."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Connections that are on their way."""

    start_s: float
    until_s: float
    numbers: tuple[tuple[int, int], ...]
    """Of the orders to the receiver and to the sender."""


def open_all(wanted: Sequence[Connection], running: Running) -> Opened:
    """All of them begin at once."""
    start_s = time.monotonic() + HEADSTART_S
    crew = running.crew
    numbers = []
    for place, each in enumerate(wanted):
        receiving, sending = crew.number(), crew.number()
        port = _FIRST_PORT + place
        until_s = start_s + each.seconds
        crew.order(each.pair.dest, TcpReceive(receiving, port, start_s + each.warm_s, until_s))
        crew.order(each.pair.origin, TcpSend(sending, running.addresses[each.pair.dest], port, start_s, until_s))
        numbers.append((receiving, sending))
    return Opened(start_s, start_s + max(each.seconds for each in wanted), tuple(numbers))


def results(opened: Opened, running: Running) -> list[Carried]:
    """In the order in which they were wanted, once all are over."""
    answers = running.crew.answers({each for both in opened.numbers for each in both}, opened.until_s + PATIENCE_S)
    return [
        Carried(answer_of(TcpReceived, answers, receiving).bits_per_s, answer_of(TcpSent, answers, sending).congestion)
        for receiving, sending in opened.numbers
    ]
