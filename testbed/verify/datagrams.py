"""Streams of datagrams between pairs, for losses and for floods.

Takes what runs at the same time, gives what was sent and what arrived; touches the nodes that measure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from testbed.verify.needs import StreamNeed, Work
from testbed.verify.network import FIRST_PORT, HEADSTART_S, PATIENCE_S, Running, answer_of
from testbed.verify.orders import Receive, Received, Send, Sent
from testbed.verify.pairs import Pair

_PORTS = 16


def stream_all(
    wave: Sequence[Work[tuple[Pair, StreamNeed]]], running: Running
) -> Iterator[tuple[Pair, StreamNeed, Sent, Received]]:
    """All of them at once."""
    start_s = time.monotonic() + HEADSTART_S
    crew = running.crew
    numbers = []
    longest_s = 0.0
    for place, work in enumerate(wave):
        pair, need = work.job
        ports = tuple(range(FIRST_PORT + place * _PORTS, FIRST_PORT + (place + 1) * _PORTS))
        receiving, sending = crew.number(), crew.number()
        until_s = start_s + need.seconds + need.patience_s
        crew.order(pair.dest, Receive(receiving, ports, until_s, need.count, start_s + need.settling_s))
        dest = running.addresses[pair.dest]
        crew.order(pair.origin, Send(sending, dest, ports, start_s, need.count, need.per_s, need.size_bytes))
        numbers.append((receiving, sending))
        longest_s = max(longest_s, until_s)
    answers = crew.answers({number for both in numbers for number in both}, longest_s + PATIENCE_S)
    for work, (receiving, sending) in zip(wave, numbers, strict=True):
        yield (*work.job, answer_of(Sent, answers, sending), answer_of(Received, answers, receiving))
