"""Orders to the probe processes, and their answers.

Takes values, gives bytes and back; touches nothing. Times of orders count from their beginning: an order that has all
it takes, such as listening sockets, is ready, and begins when it is told to. All others are by the host's
CLOCK_MONOTONIC, which all nodes share.
"""

from __future__ import annotations

from typing import Union

import msgspec

MOST_BYTES = 1 << 17
"""Upper bound of an order or an answer; each is one packet."""


class ProbeOrder(msgspec.Struct, frozen=True, tag=str.lower):
    """Base of all orders; its answer has the same number."""

    number: int


class Begin(ProbeOrder, frozen=True):
    """Begin with the order of this number, which is ready; it has no answer of its own."""

    at_s: float


class Respond(ProbeOrder, frozen=True):
    """Send every probe back with its arrival time, until `until_s`."""

    port: int
    until_s: float


class Echo(ProbeOrder, frozen=True):
    """Send probes to a responding node from `start_s` on, with gaps drawn uniformly between the two."""

    dest: str
    port: int
    start_s: float
    count: int
    least_gap_s: float
    most_gap_s: float
    patience_s: float
    """How long the answer to the last probe may take."""
    seed: int


class SendDatagrams(ProbeOrder, frozen=True):
    """Send datagrams to these ports in turn, at a steady rate."""

    dest: str
    ports: tuple[int, ...]
    count: int
    per_s: float
    size_bytes: int
    """Size of the IP packet, headers included."""


class ReceiveDatagrams(ProbeOrder, frozen=True):
    """Count datagrams until `until_s`, or until `count` have arrived."""

    ports: tuple[int, ...]
    until_s: float
    count: int
    settled_s: float
    """From when on rate and delay are measured."""


class TcpSend(ProbeOrder, frozen=True):
    """Send as fast as TCP can until `until_s`."""

    dest: str
    port: int
    until_s: float


class TcpReceive(ProbeOrder, frozen=True):
    """Count the bytes that arrive between the two times."""

    port: int
    settled_s: float
    until_s: float


AnyOrder = Union[  # noqa: UP007 - msgspec reads it at run time
    Begin, Respond, Echo, SendDatagrams, ReceiveDatagrams, TcpSend, TcpReceive
]


class ProbeAnswer(msgspec.Struct, frozen=True, tag=str.lower):
    """Base of all answers."""

    number: int


class Ready(ProbeAnswer, frozen=True):
    """The order waits for `Begin`; its answer is still to come."""


class Responded(ProbeAnswer, frozen=True):
    probes: int


class Echoed(ProbeAnswer, frozen=True):
    sent: int
    round_trips_s: tuple[float, ...]
    there_s: tuple[float, ...]
    back_s: tuple[float, ...]
    sent_s: tuple[float, ...]
    """When each returned probe was sent, by the host's clock."""


class DatagramsSent(ProbeAnswer, frozen=True):
    packets: int
    seconds: float


class DatagramsReceived(ProbeAnswer, frozen=True):
    packets: int
    overflowed: int
    """Arrived at the node, but found its socket buffer full."""
    settled_packets: int
    settled_span_s: float
    """From the first to the last settled packet."""
    delays_s: tuple[float, ...]
    """One-way delays of some settled packets."""


class TcpSent(ProbeAnswer, frozen=True):
    congestion: str


class TcpReceived(ProbeAnswer, frozen=True):
    bits_per_s: float


class ProbeFailed(ProbeAnswer, frozen=True):
    """The order failed, for this reason."""

    reason: str


AnyAnswer = Union[  # noqa: UP007 - msgspec reads it at run time
    Ready, Responded, Echoed, DatagramsSent, DatagramsReceived, TcpSent, TcpReceived, ProbeFailed
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
