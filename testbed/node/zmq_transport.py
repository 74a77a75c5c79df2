"""A node's transport in real runs: messages in ZeroMQ's protocol, on TCP.

Takes messages from the outbox, passes those that arrive to a callback; touches sockets. Every node listens as a PULL
socket and is a PUSH socket to each peer that it sends to. Nothing is answered on a connection: the kernel's
acknowledgements tell what has arrived.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from testbed.node.background import outside_of_algorithms
from testbed.node.messages import MAX_BUFFER, Message
from testbed.node.zmq_connection import ZmqConnection
from testbed.node.zmq_frames import FramedMessageCache, OutgoingMessage
from testbed.node.zmq_inbox import OnRefusal, Receive, Refusal, ZmqInbox
from testbed.node.zmq_peer_link import PeerLink

PORT = 5555
_LOOK_S = 0.02
"""Interval of looking whether all has arrived, for a caller that waits for that."""


class ZmqShipment:
    """A message being sent to one peer."""

    __slots__ = ("_link", "_parcel")

    def __init__(self, link: PeerLink, outgoing: OutgoingMessage) -> None:
        self._link = link
        self._parcel = outgoing

    def sent_bytes(self) -> int:
        """How many of its bytes have left."""
        return self._link.sent_bytes(self._parcel)

    def quiet_s(self) -> float:
        """Emulated seconds since the peer's kernel acknowledged anything, or since the start."""
        return self._link.quiet_s(self._parcel)

    def abort(self, *, at_once: bool = False) -> int:
        """Stops sending; returns how many of its bytes have left. Bytes unsent by the kernel never leave."""
        with outside_of_algorithms():
            return self._link.abort(self._parcel, at_once=at_once)


class ZmqTransport:
    """Carries a node's messages; made and used inside a running event loop.

    A peer that comes back gets the messages that it had not acknowledged, and all that follow.
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        port: int,
        receive: Receive,
        *,
        largest: int = MAX_BUFFER // 2 - 1,
        on_refusal: OnRefusal | None = None,
        time_scale: float = 1.0,
    ) -> None:
        """`addresses`: by rank, all different. `largest`: maximum bytes of a message."""
        if len(set(addresses)) != len(addresses):
            raise ValueError("every node needs its own address, by which its peers identify it")
        self._rank = rank
        self._addresses = addresses
        self._port = port
        self._largest = largest
        self._time_scale = time_scale
        self._life = int.from_bytes(os.urandom(8), "little")
        self._links: dict[int, PeerLink] = {}
        self._framed_messages = FramedMessageCache()
        self._numbers = 0
        self._inbox = ZmqInbox(addresses, rank, port, largest, receive, on_refusal, time_scale)

    @property
    def refused(self) -> Mapping[Refusal, int]:
        """Number of arrivals dropped, by kind."""
        return self._inbox.refused

    @property
    def connections(self) -> int:
        """Number of connections to peers that have been up: one for each peer, unless some were lost."""
        return sum(link.connections for link in self._links.values())

    async def connect(self, ranks: Iterable[int], within_s: float) -> tuple[int, ...]:
        """Opens connections to these peers before anything is sent, and waits for them for at most `within_s`.

        Returns those that have not answered by then, in ascending order; attempts go on.
        """
        links = {rank: self._link_to(rank) for rank in sorted(ranks)}
        for link in links.values():
            link.open()
        try:
            async with asyncio.timeout(within_s):
                for link in links.values():
                    await link.is_up.wait()
        except TimeoutError:
            pass
        return tuple(rank for rank, link in links.items() if not link.is_up.is_set())

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> ZmqShipment:
        """Starts to send; `on_left` is called once, when the last byte has left this node."""
        if message.nbytes > self._largest:
            raise ValueError(f"a message of {message.nbytes} bytes: at most {self._largest} are expected")
        with outside_of_algorithms():  # connections have timers of their own
            link = self._link_to(to)
            self._numbers += 1
            outgoing = OutgoingMessage(self._numbers, message, self._framed_messages.of(message), on_left)
            link.send(outgoing)
        return ZmqShipment(link, outgoing)

    def holds_any_of(self, ranks: Collection[int]) -> bool:
        """Whether bytes of these peers are here that were not read yet."""
        return self._inbox.holds_any_of(ranks)

    async def all_arrived(self, within_s: float) -> bool:
        """Waits at most `within_s` until the peers' kernels have all that was sent; whether they have."""
        links = self._links.values()
        try:
            async with asyncio.timeout(within_s):
                while not all(link.is_idle for link in links):
                    await asyncio.sleep(_LOOK_S)
                    for link in list(links):
                        link.look()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Ends all connections; the kernel still sends its unsent bytes. May be repeated."""
        for link in self._links.values():
            link.close(forget=False)
        self._inbox.close()

    def _link_to(self, to: int) -> PeerLink:
        link = self._links.get(to)
        if link is None:
            link = self._links[to] = self._make_link(to)
        return link

    def _make_link(self, to: int) -> PeerLink:
        own, peer = self._addresses[self._rank], self._addresses[to]

        def connect(on_up: Callable[[ZmqConnection], None], on_over: Callable[[ZmqConnection], None]) -> ZmqConnection:
            return ZmqConnection(own, (peer, self._port), self._time_scale, on_up, on_over)

        return PeerLink(self._rank, self._life, connect, self._time_scale)
