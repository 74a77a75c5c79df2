"""Round trips of probes.

Takes pairs and how many probes, gives what came back; touches the nodes that measure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from testbed.verify.needs import EchoNeed
from testbed.verify.network import FIRST_PORT, HEADSTART_S, PATIENCE_S, Running, answer_of
from testbed.verify.orders import Echo, Echoed, Respond, Responded
from testbed.verify.pairs import Pair


def start_echo(pair: Pair, need: EchoNeed, place: int, start_s: float, running: Running) -> tuple[int, int, float]:
    """The numbers of both orders, and when they are over; `place` tells apart what runs at the same time."""
    crew = running.crew
    responding, asking = crew.number(), crew.number()
    until_s = start_s + need.count * need.most_gap_s + need.patience_s
    port = FIRST_PORT + place
    crew.order(pair.dest, Respond(responding, port, until_s))
    dest = running.addresses[pair.dest]
    gaps = (need.least_gap_s, need.most_gap_s)
    crew.order(pair.origin, Echo(asking, dest, port, start_s, need.count, *gaps, need.patience_s, place))
    return responding, asking, until_s


def echo_all(jobs: Sequence[tuple[Pair, EchoNeed]], running: Running) -> list[tuple[Responded, Echoed]]:
    """All pairs at once: a probe now and then disturbs nobody."""
    start_s = time.monotonic() + HEADSTART_S
    orders = [start_echo(pair, need, place, start_s, running) for place, (pair, need) in enumerate(jobs)]
    numbers = {number for *both, _ in orders for number in both}
    longest_s = max((until_s for *_, until_s in orders), default=start_s)
    answers = running.crew.answers(numbers, longest_s + PATIENCE_S)
    return [
        (answer_of(Responded, answers, responding), answer_of(Echoed, answers, asking))
        for responding, asking, _ in orders
    ]
