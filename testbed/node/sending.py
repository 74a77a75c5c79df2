"""The messages that a node sends: its outbox, and the peers that take nothing any more.

Takes messages from the algorithm, gives tickets; touches nothing besides.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from operator import index
from typing import NamedTuple

from testbed.journal import Journal
from testbed.node.comeback import Comeback, Memory
from testbed.node.expected_traffic import largest_message_bytes
from testbed.node.finished import FinishedPeers
from testbed.node.kinds import GOODBYE, RESERVED, check_kind
from testbed.node.mailbox import Mailbox
from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Policy
from testbed.node.recording import RecordingNode
from testbed.node.sealing import sealed
from testbed.node.silence import SilentPeers
from testbed.node.tickets import Ticket, TicketState
from testbed.node.world import Clock, Observer, Transport
from testbed.plan.model import NodePlan
from testbed.plan.outbox import outbox_of


class Tickets(list[Ticket]):
    """The tickets of one `send`, in the order of its recipients. Awaiting it gives it at once."""

    def __await__(self) -> Generator[None, None, Tickets]:
        yield from ()
        return self


class Ports(NamedTuple):
    """What a node exchanges and records by."""

    clock: Clock
    transport: Transport
    journal: Journal
    observer: Observer
    tested_on: str
    """The data of scores, as named in journals."""
    model_bytes: int


class SendingNode(RecordingNode):
    """The part of a node that sends."""

    def __init__(self, plan: NodePlan, ports: Ports, first_round: int) -> None:
        super().__init__(plan.node.rank, ports.clock, ports.journal, ports.observer, ports.tested_on)
        self.plan = plan
        """All that this node is told of the run: `plan.ranks` has the names of all nodes."""
        self.server = plan.server
        """The rank of the node that serves instead of learning, if there is one."""
        self.round = first_round
        """The round that goes on."""
        self.mailbox = Mailbox(ports.clock.now, ports.model_bytes)
        self.mailbox.on_full = self._no_room
        missing, outbox = plan.experiment.missing, outbox_of(plan.experiment)
        self._silent_peers = SilentPeers(
            ports.clock, self.mailbox.heard, missing.after_s, gives_up=missing.then != "wait"
        )
        self.outbox = Outbox(ports.transport, Policy(outbox.policy), outbox.in_flight, self._silent_peers)
        self.outbox.on_given_up = lambda rank: self.note("sends-given-up", f"to {self._names([rank])}")
        self._largest_message = largest_message_bytes(plan.experiment, ports.model_bytes // 4)
        self._memory = Memory(self.outbox, first_round, serves=self.server == self.rank)
        self._comeback: Comeback | None = None
        self._finished_peers = FinishedPeers()

    def send(self, to: int | Iterable[int], message: Message) -> Tickets:
        """Puts a message into the outbox for each recipient, and gives their tickets, without waiting for anything.

        What arrives is what was there at this call. `await node.send(...)` does the same.
        """
        recipients = [index(each) for each in to] if isinstance(to, Iterable) else [index(to)]
        message = sealed(message, len(recipients), self._largest_message)
        check_kind(message.kind)
        self._memory.sent(recipients, message)
        return self.post(recipients, message)

    def post(self, recipients: Collection[int], message: Message) -> Tickets:
        """Sends a message of any kind, also of those that nodes use among themselves."""
        tickets = Tickets()
        for rank in recipients:
            if not 0 <= rank < len(self.plan.ranks):
                raise ValueError(f"there is no rank {rank}: the nodes have 0 to {len(self.plan.ranks) - 1}")
            if rank == self.rank:
                self.mailbox.put(rank, message.delivered(), counted=False)
                tickets.append(Ticket(rank, message, 0))
                tickets[-1].settle(TicketState.LEFT)
            else:
                tickets.append(self.outbox.post(rank, message))
        if self._finished_peers.finished:
            self.outbox.cut(self._finished_peers.finished.intersection(recipients))
        return tickets

    def flush(self) -> list[Ticket]:
        """Withdraws all messages with a payload whose sending has not started; gives their tickets."""
        return self.outbox.flush(kept=RESERVED)

    def withdraw(self, tickets: Iterable[Ticket]) -> None:
        """Withdraws these messages. One that is under way is cut; those that have left arrive."""
        self.outbox.withdraw(tickets)

    async def finish_sending(self) -> None:
        """Waits until all messages have left. Those of which peers take nothing for the timeout are given up."""
        if self._comeback is not None:
            self._comeback.is_over()
        self.outbox.finish()
        await self.outbox.drained()

    def stop_answering(self) -> None:
        """Nothing is sent any more, not even answers to nodes that came back."""
        self._memory.is_closed = True

    def say_goodbye(self) -> None:
        """Tells all nodes that this one sends nothing any more, so that none of them waits."""
        self.post([rank for rank in range(len(self.plan.ranks)) if rank != self.rank], Message(GOODBYE, self.round))

    @property
    def finished_peers(self) -> frozenset[int]:
        """Ranks of nodes that have finished, or have left and not come back: they neither send nor answer any more.

        All messages that they sent to this node have arrived before.
        """
        return self._finished_peers.ranks

    def _no_room(self, sender: int, dropped: int) -> None:
        self.note("mailbox-full", f"from {self._names([sender])}: {dropped} dropped so far")

    def _names(self, ranks: Collection[int]) -> str:
        return ", ".join(self.plan.ranks[rank] for rank in sorted(ranks))
