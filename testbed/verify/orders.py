"""What a node is told to measure, and what it answers.

Takes values, gives bytes and back; touches nothing. Times are the host's CLOCK_MONOTONIC, which all nodes share.
"""

from __future__ import annotations

from typing import Union

import msgspec

MOST_BYTES = 1 << 17
"""Of an order or an answer: one packet each."""


class Order(msgspec.Struct, frozen=True, tag=str.lower):
    """Base of all orders; its answer has the same number."""

    number: int


class Respond(Order, frozen=True):
    """Send every probe back, with the time when it came, until then."""

    port: int
    until_s: float


class Echo(Order, frozen=True):
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


class Send(Order, frozen=True):
    """Datagrams to these ports in turn, at a steady rate."""

    dest: str
    ports: tuple[int, ...]
    start_s: float
    count: int
    per_s: float
    size_bytes: int
    """Of the packet, headers included."""


class Receive(Order, frozen=True):
    """Count datagrams until then, or until so many have come."""

    ports: tuple[int, ...]
    until_s: float
    count: int
    settled_s: float
    """When the rate and the delay are looked at."""


class TcpSend(Order, frozen=True):
    """Send as fast as TCP can, until then."""

    dest: str
    port: int
    start_s: float
    until_s: float


class TcpReceive(Order, frozen=True):
    """Count what comes between the two times."""

    port: int
    settled_s: float
    until_s: float


AnyOrder = Union[  # noqa: UP007 - msgspec reads it at run time
    Respond, Echo, Send, Receive, TcpSend, TcpReceive
]


class Answer(msgspec.Struct, frozen=True, tag=str.lower):
    """Base of all answers."""

    number: int


class Responded(Answer, frozen=True):
    probes: int


class Echoed(Answer, frozen=True):
    sent: int
    round_trips_s: tuple[float, ...]
    there_s: tuple[float, ...]
    back_s: tuple[float, ...]
    sent_s: tuple[float, ...]
    """When each of those that came back was sent, by the host's clock."""


class Sent(Answer, frozen=True):
    packets: int
    seconds: float


class Received(Answer, frozen=True):
    packets: int
    overflowed: int
    """Came to the node, and were too fast for the program that counts."""
    settled_packets: int
    settled_span_s: float
    """Between the first and the last of those."""
    delays_s: tuple[float, ...]
    """Some of theirs."""


class TcpSent(Answer, frozen=True):
    congestion: str


class TcpReceived(Answer, frozen=True):
    bits_per_s: float


class Failed(Answer, frozen=True):
    """It could not be measured, and why."""

    reason: str


AnyAnswer = Union[  # noqa: UP007 - msgspec reads it at run time
    Responded, Echoed, Sent, Received, TcpSent, TcpReceived, Failed
]

_ENCODER = msgspec.msgpack.Encoder()
_ORDERS: msgspec.msgpack.Decoder[AnyOrder] = msgspec.msgpack.Decoder(AnyOrder)
_ANSWERS: msgspec.msgpack.Decoder[AnyAnswer] = msgspec.msgpack.Decoder(AnyAnswer)


def packed(told: Order | Answer) -> bytes:
    return _ENCODER.encode(told)


def read_order(data: bytes) -> AnyOrder:
    return _ORDERS.decode(data)


def read_answer(data: bytes) -> AnyAnswer:
    return _ANSWERS.decode(data)
