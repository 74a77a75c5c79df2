"""The network of a run in virtual time: messages between nodes, over `network/flows`.

Takes messages from outboxes, hands them to mailboxes when their last byte is there; touches nothing else. What was not
acknowledged by a node that died is sent anew when it comes back, as a reconnecting sender does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from testbed.network.flows import Acknowledged, Delivered, Flows, Sent, Transfer
from testbed.network.graph import Network
from testbed.node.messages import Message
from testbed.runtimes.sim.clock import VirtualClock

FRAME_BYTES = 9
"""What announces a frame of a message on the wire; not counted as the application's."""

_RATHER_LET_GO = 4 << 10
"""A message of which fewer bytes are unsent leaves and arrives, as in real runs; any other is cut at a multiple."""

Receiver = Callable[[int, Message], None]


class _Shipment:
    """One message from one node to another."""

    __slots__ = (
        "before_bytes",
        "dest",
        "is_delivered",
        "message",
        "moved_s",
        "network",
        "on_left",
        "origin",
        "transfer",
    )

    def __init__(
        self, network: VirtualNetwork, origin: int, dest: int, message: Message, on_left: Callable[[], None]
    ) -> None:
        self.network = network
        self.origin = origin
        self.dest = dest
        self.message = message
        self.on_left = on_left
        self.transfer: Transfer | None = None
        self.before_bytes = 0
        """Bytes on the wire that had left before a death of the recipient; they must be sent again."""
        self.moved_s = network.now_s
        """When it was handed over, or last moved before that."""
        self.is_delivered = False

    @property
    def wire_bytes(self) -> int:
        return self.message.nbytes + FRAME_BYTES * len(self.message.frames())

    def sent_bytes(self) -> int:
        return self.own_bytes(self.network.wire_bytes_sent(self))

    def own_bytes(self, wire_bytes: int) -> int:
        """How many of the message's own bytes are among the first ones on the wire."""
        return max(0, wire_bytes - (self.wire_bytes - self.message.nbytes))

    def quiet_s(self) -> float:
        return self.network.now_s - self.network.last_moved_s(self)

    def abort(self, *, at_once: bool = False) -> int:
        return self.own_bytes(self.network.abort(self, at_once=at_once))


class VirtualNetwork:
    """Carries the messages of all nodes, and keeps the network's time."""

    def __init__(self, flows: Flows, clock: VirtualClock) -> None:
        self._flows = flows
        self._clock = clock
        self._receivers: dict[int, Receiver] = {}
        self._moving: dict[Transfer, _Shipment] = {}
        self._waiting: defaultdict[int, list[_Shipment]] = defaultdict(list)
        """By a destination that is not there: what will be sent when it is."""
        self._held: dict[int, list[tuple[int, Message]]] = {}
        """By a node that is paused: what has arrived meanwhile."""

    # -- for nodes -------------------------------------------------------------------------------------------------

    def transport(self, rank: int) -> NodeTransport:
        return NodeTransport(self, rank)

    def ship(self, origin: int, dest: int, message: Message, on_left: Callable[[], None]) -> _Shipment:
        shipment = _Shipment(self, origin, dest, message, on_left)
        if origin in self._receivers:  # else it is dead, whatever its code still tries
            self._send(shipment)
        return shipment

    def _send(self, shipment: _Shipment) -> None:
        if shipment.dest not in self._receivers:
            self._waiting[shipment.dest].append(shipment)
            return
        self.advance(self._clock.now())
        shipment.transfer = self._flows.send(shipment.origin, shipment.dest, shipment.wire_bytes)
        self._moving[shipment.transfer] = shipment

    @property
    def now_s(self) -> float:
        return self._clock.now()

    def wire_bytes_sent(self, shipment: _Shipment) -> int:
        """Bytes on the wire that have left, each counted once."""
        now = 0 if shipment.transfer is None else self._flows.sent_bytes(shipment.transfer)
        return max(now, shipment.before_bytes)

    def last_moved_s(self, shipment: _Shipment) -> float:
        """When bytes of it last left, or when it was handed over."""
        last_s = 0.0 if shipment.transfer is None else self._flows.last_sent_s(shipment.transfer)
        return max(last_s, shipment.moved_s)

    def abort(self, shipment: _Shipment, *, at_once: bool) -> int:
        """Stops the sending; gives how many of its bytes on the wire have left."""
        transfer = shipment.transfer
        if transfer is None:
            if shipment in self._waiting[shipment.dest]:
                self._waiting[shipment.dest].remove(shipment)
            return shipment.before_bytes
        sent = self._flows.sent_bytes(transfer)
        if not at_once and sent > 0 and transfer.size_bytes - sent <= _RATHER_LET_GO:
            return transfer.size_bytes
        kept = self._flows.cancel(transfer, chunk_bytes=_RATHER_LET_GO)
        if not transfer.has_left:
            self._moving.pop(transfer, None)
        return max(kept, shipment.before_bytes)

    # -- for the runtime -------------------------------------------------------------------------------------------

    def attach(self, rank: int, receiver: Receiver) -> None:
        """A node is there: what waited for it is sent now."""
        self._receivers[rank] = receiver
        for shipment in self._waiting.pop(rank, []):
            self._send(shipment)

    def leave(self, rank: int) -> None:
        """A node is gone in good order: what it has sent arrives, what is sent to it waits for its return."""
        self._receivers.pop(rank, None)
        self._held.pop(rank, None)

    def detach(self, rank: int) -> None:
        """A node is dead: nothing arrives from it any more, and what was on its way to it will be sent anew."""
        self._receivers.pop(rank, None)
        self._held.pop(rank, None)
        gone = [each for each in self._moving.values() if rank in (each.origin, each.dest)]
        for shipment in gone:
            shipment.moved_s, shipment.before_bytes = self.last_moved_s(shipment), self.wire_bytes_sent(shipment)
        self._flows.reset(rank)
        for shipment in gone:
            assert shipment.transfer is not None  # noqa: S101 - it is moving
            del self._moving[shipment.transfer]
            shipment.transfer = None
            if shipment.dest == rank and not shipment.is_delivered:
                self._waiting[rank].append(shipment)
        for dest, waiting in self._waiting.items():
            self._waiting[dest] = [each for each in waiting if each.origin != rank]

    def pause(self, rank: int) -> None:
        self._held.setdefault(rank, [])

    def resume(self, rank: int) -> None:
        for origin, message in self._held.pop(rank, []):
            self._hand_over(rank, origin, message)

    def on_the_way(self, origins: Collection[int]) -> set[tuple[int, int]]:
        """Senders and recipients of messages that these nodes have sent, and that have not arrived."""
        moving = {(each.origin, each.dest) for each in self._moving.values() if not each.is_delivered}
        held = {(origin, dest) for dest, messages in self._held.items() for origin, _ in messages}
        return {each for each in moving | held if each[0] in origins}

    def is_paused(self, rank: int) -> bool:
        return rank in self._held

    def change(self, network: Network) -> None:
        """From now on the network is this."""
        self.advance(self._clock.now())
        self._flows.change(network)

    # -- time ------------------------------------------------------------------------------------------------------

    def next_s(self) -> float:
        return self._flows.next_s()

    def advance(self, to_s: float) -> None:
        for happened in self._flows.advance(to_s):
            shipment = self._moving.get(happened.transfer)
            if shipment is None:
                continue
            match happened:
                case Delivered():
                    shipment.is_delivered = True
                    self._hand_over(shipment.dest, shipment.origin, shipment.message)
                case Sent():
                    shipment.on_left()
                case Acknowledged():
                    del self._moving[happened.transfer]

    def _hand_over(self, rank: int, origin: int, message: Message) -> None:
        if rank in self._held:
            self._held[rank].append((origin, message))
        elif rank in self._receivers:
            self._receivers[rank](origin, message.delivered())


class NodeTransport:
    """One node's end of the network."""

    def __init__(self, network: VirtualNetwork, rank: int) -> None:
        self._network = network
        self._rank = rank

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> _Shipment:
        return self._network.ship(self._rank, to, message, on_left)
