"""Tickets: what has become of each message that a node has posted.

Takes messages and how far they are under way, gives their states; touches nothing. An algorithm gets a ticket for every
recipient of a message. The outbox moves it from one state to the next.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum

from testbed.node.messages import Message
from testbed.node.world import Shipment


class TicketState(StrEnum):
    """Where a message is. The last three are final."""

    WAITING = "waiting"
    """In the outbox; none of its bytes has left."""
    UNDER_WAY = "under-way"
    LEFT = "left"
    """Its last byte has left this node."""
    DROPPED = "dropped"
    """By the outbox: for a newer message, for a peer that is silent or has finished, or at the node's end."""
    WITHDRAWN = "withdrawn"
    """By the algorithm."""


class Ticket:
    """One message to one peer."""

    __slots__ = ("_sent_bytes", "_settled", "_shipment", "message", "number", "state", "to")

    def __init__(self, to: int, message: Message, number: int) -> None:
        self.to = to
        """The rank of the recipient."""
        self.message = message
        """What is sent."""
        self.number = number
        """Its turn among the messages of its node: the lowest number starts first."""
        self.state = TicketState.WAITING
        """`waiting`, `under-way`, `left`, `dropped` (by the outbox) or `withdrawn` (by the algorithm)."""
        self._shipment: Shipment | None = None
        self._sent_bytes = 0
        self._settled: asyncio.Future[None] | None = None

    @property
    def left(self) -> bool:
        """Whether its last byte has left this node."""
        return self.state is TicketState.LEFT

    @property
    def dropped(self) -> bool:
        """Whether the outbox has dropped it, wholly or in part."""
        return self.state is TicketState.DROPPED

    @property
    def withdrawn(self) -> bool:
        """Whether the algorithm has withdrawn it before all of it had left."""
        return self.state is TicketState.WITHDRAWN

    @property
    def nbytes(self) -> int:
        """The size of the message: header, metadata and payload."""
        return self.message.nbytes

    @property
    def sent_bytes(self) -> int:
        """Bytes of the message that have left this node so far; never less than before."""
        if self._shipment is not None:
            self._sent_bytes = max(self._sent_bytes, self._shipment.sent_bytes())
        return self._sent_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes of a dropped or withdrawn message that never leave; 0 in all other states."""
        return self.nbytes - self._sent_bytes if self.dropped or self.withdrawn else 0

    async def settled(self) -> bool:
        """Waits until the last byte has left, or the message was dropped or withdrawn; gives whether it left."""
        if self.state in (TicketState.WAITING, TicketState.UNDER_WAY):
            if self._settled is None:
                self._settled = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._settled)
        return self.left

    # -- for the outbox --------------------------------------------------------------------------------------------

    def begin(self, shipment: Shipment) -> None:
        """The transport has the message; it may be done with it at once."""
        if self.state is TicketState.UNDER_WAY:
            self._shipment = shipment

    @property
    def quiet_s(self) -> float:
        """Emulated seconds since the peer last took any of it."""
        return 0.0 if self._shipment is None else self._shipment.quiet_s()

    def abort(self, *, at_once: bool) -> int:
        """Stops the sending; gives the bytes that have left, or leave nevertheless."""
        assert self._shipment is not None  # noqa: S101 - it is under way
        return max(self.sent_bytes, self._shipment.abort(at_once=at_once))

    def settle(self, state: TicketState, sent_bytes: int = 0) -> None:
        """Puts it into its final state."""
        self.state = state
        self._sent_bytes = self.nbytes if state is TicketState.LEFT else sent_bytes
        self._shipment = None
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)
