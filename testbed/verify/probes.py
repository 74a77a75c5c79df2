"""Echo probes: small datagrams whose round-trip and one-way times are measured.

Takes orders, gives answers; touches sockets of the process's network namespace.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from time import monotonic

from testbed.seeds import stream
from testbed.verify.probe_protocol import Echo, Echoed, Respond, Responded
from testbed.verify.sockets import receiver, stamp_arrivals, take, wait_until

WhenReady = Callable[[], float]
"""Says that an order is ready, and waits until it begins; gives when."""
_PROBE = struct.Struct("!Iddd")
"""Number, and times of sending, arrival and sending back."""
HEADERS_BYTES = 28
PROBE_BYTES = _PROBE.size + HEADERS_BYTES


def respond(order: Respond, begin: WhenReady) -> Responded:
    """Sends every probe back to its sender."""
    probes = 0
    with receiver(order.port) as own:
        until_s = begin() + order.until_s
        while wait_until(own, until_s):
            data, came_s, sender = take(own)
            number, sent_s, *_ = _PROBE.unpack(data)
            own.sendto(_PROBE.pack(number, sent_s, came_s, monotonic()), sender)
            probes += 1
    return Responded(order.number, probes)


def echo(order: Echo, begin: WhenReady) -> Echoed:
    """Sends probes without waiting for answers; the time spent at the other node is not counted."""
    gaps = stream(order.seed, "verify", "gaps")
    round_trips: list[float] = []
    there: list[float] = []
    back: list[float] = []
    when: list[float] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        stamp_arrivals(own)
        own.connect((order.dest, order.port))

        def hear(until_s: float) -> None:
            while len(round_trips) < order.count and wait_until(own, until_s):
                data, back_s, _ = take(own)
                _, sent_s, came_s, left_s = _PROBE.unpack(data)
                there.append(came_s - sent_s)
                back.append(back_s - left_s)
                round_trips.append(there[-1] + back[-1])
                when.append(sent_s)

        next_s = begin() + order.start_s
        for number in range(order.count):
            hear(next_s)
            own.send(_PROBE.pack(number, monotonic(), 0.0, 0.0))
            next_s = max(next_s, monotonic() - order.least_gap_s)
            next_s += gaps.uniform(order.least_gap_s, order.most_gap_s)
        hear(monotonic() + order.patience_s)
    return Echoed(order.number, order.count, tuple(round_trips), tuple(there), tuple(back), tuple(when))
