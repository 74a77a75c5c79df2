"""What a node is told to measure, and what it answers.

Takes values, gives bytes and back; touches nothing. Times are the host's CLOCK_MONOTONIC, which all nodes share.
"""

from __future__ import annotations

from typing import Union

import msgspec

MOST_BYTES = 1 << 17
"""Of an order or an answer: one packet each."""


class ProbeOrder(msgspec.Struct, frozen=True, tag=str.lower):
    """Base of all orders; its answer has the same number."""

    number: int


class Respond(ProbeOrder, frozen=True):
    """Send every probe back, with the time when it came, until then."""

    port: int
    until_s: float


class Echo(ProbeOrder, frozen=True):
    """Probes to a node that responds, from then on, with gaps drawn evenly between the two."""

    dest: str
    port: int
    start_s: float
    count: int
    least_gap_s: float
    most_gap_s: float
    patience_s: float
    """How long after the last probe its answer may take."""
    seed: int


class SendDatagrams(ProbeOrder, frozen=True):
    """Datagrams to these ports in turn, at a steady rate."""

    dest: str
    ports: tuple[int, ...]
    start_s: float
    count: int
    per_s: float
    size_bytes: int
    """Of the packet, headers included."""


class ReceiveDatagrams(ProbeOrder, frozen=True):
    """Count datagrams until then, or until so many have come."""

    ports: tuple[int, ...]
    until_s: float
    count: int
    settled_s: float
    """When the rate and the delay are looked at."""


class TcpSend(ProbeOrder, frozen=True):
    """Send as fast as TCP can, until then."""

    dest: str
    port: int
    start_s: float
    until_s: float


class TcpReceive(ProbeOrder, frozen=True):
    """Count what comes between the two times."""

    port: int
    settled_s: float
    until_s: float


AnyOrder = Union[  # noqa: UP007 - msgspec reads it at run time
    Respond, Echo, SendDatagrams, ReceiveDatagrams, TcpSend, TcpReceive
]


class ProbeAnswer(msgspec.Struct, frozen=True, tag=str.lower):
    """Base of all answers."""

    number: int


class Responded(ProbeAnswer, frozen=True):
    probes: int


class Echoed(ProbeAnswer, frozen=True):
    sent: int
    round_trips_s: tuple[float, ...]
    there_s: tuple[float, ...]
    back_s: tuple[float, ...]
    sent_s: tuple[float, ...]
    """When each of those that came back was sent, by the host's clock."""


class DatagramsSent(ProbeAnswer, frozen=True):
    packets: int
    seconds: float


class DatagramsReceived(ProbeAnswer, frozen=True):
    packets: int
    overflowed: int
    """Came to the node, and were too fast for the program that counts."""
    settled_packets: int
    settled_span_s: float
    """Between the first and the last of those."""
    delays_s: tuple[float, ...]
    """Some of theirs."""


class TcpSent(ProbeAnswer, frozen=True):
    congestion: str


class TcpReceived(ProbeAnswer, frozen=True):
    bits_per_s: float


class ProbeFailed(ProbeAnswer, frozen=True):
    """It could not be measured, and why."""

    reason: str


AnyAnswer = Union[  # noqa: UP007 - msgspec reads it at run time
    Responded, Echoed, DatagramsSent, DatagramsReceived, TcpSent, TcpReceived, ProbeFailed
]

_ENCODER = msgspec.msgpack.Encoder()
_ORDERS: msgspec.msgpack.Decoder[AnyOrder] = msgspec.msgpack.Decoder(AnyOrder)
_ANSWERS: msgspec.msgpack.Decoder[AnyAnswer] = msgspec.msgpack.Decoder(AnyAnswer)


def packed(told: ProbeOrder | ProbeAnswer) -> bytes:
    return _ENCODER.encode(told)


def read_order(data: bytes) -> AnyOrder:
    return _ORDERS.decode(data)


def read_answer(data: bytes) -> AnyAnswer:
    return _ANSWERS.decode(data)
