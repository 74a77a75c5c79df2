"""What a node waits for of several peers at once, and the peers that are silent, have finished or are gone.

Takes messages from the transport, and tells the mailbox which of them are for the algorithm; touches nothing besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from testbed.node.comeback import Comeback
from testbed.node.kinds import AGAIN, ANSWERS, GOODBYE, MODEL, PAST, REPEATED
from testbed.node.mailbox import Gathering
from testbed.node.messages import Message, Received
from testbed.node.receiving import ReceivingNode
from testbed.node.round_account import WAIT
from testbed.node.sending import Ports
from testbed.plan.model import NodePlan


class PeerMissing(Exception):
    """A peer did not answer in time, and the experiment ends the node in that case."""


class TalkingNode(ReceivingNode):
    """The part of a node that exchanges messages, round after round."""

    def __init__(self, plan: NodePlan, ports: Ports, first_round: int) -> None:
        super().__init__(plan, ports, first_round)
        self.mailbox.sift = self._sift
        self._given_up: Counter[tuple[str, int, int]] = Counter()
        """How many messages have been counted as expired, in case they still arrive: by kind, round, sender."""

    async def gather(
        self,
        senders: Iterable[int],
        round_: int,
        kind: str = MODEL,
        *,
        enough: int | None = None,
        within_s: float | None = None,
        part: int | None = None,
    ) -> list[Received]:
        """One message of the round from each sender (or from the first `enough`, or from those in time), by rank.

        With `part`, one whose field `part` is that number: a sender may send several parts of a model in a round.

        Messages of later rounds are kept, those of earlier rounds expire. The experiment says what happens if a sender
        is silent for too long: the node waits on, leaves the sender out until it sends again, or ends.
        """
        self._check_kinds((kind,))
        return await self.gather_any_kind(senders, round_, kind, enough=enough, within_s=within_s, part=part)

    async def gather_any_kind(
        self,
        senders: Iterable[int],
        round_: int,
        kind: str,
        *,
        enough: int | None = None,
        within_s: float | None = None,
        part: int | None = None,
    ) -> list[Received]:
        """`gather`, also of kinds that nodes use among themselves."""
        self.expire(kind, round_)
        awaited, silent = self._apart(senders)
        self._give_up(kind, round_, silent)
        gathering = self.mailbox.gather(kind, round_, awaited, enough, part)
        comeback = self._comeback if kind in REPEATED else None
        if comeback is not None:
            comeback.begins(gathering)
        self._miss_finished(gathering)
        missing = self.plan.experiment.missing
        began = self.now()
        with self._account.phase(WAIT):
            alarms = [self._clock.call_at(self.now() + missing.after_s, lambda: self._silent(gathering, began))]
            if within_s is not None:
                alarms.append(self._clock.call_at(self.now() + within_s, gathering.give_up))
            try:
                await gathering.future
                if enough is not None:
                    # Others may arrive at this very instant, and ranks decide who was first.
                    await self._pause(0.0)
            finally:
                for alarm in alarms:
                    alarm.cancel()
                self.mailbox.done(gathering)
        if comeback is not None:
            comeback.ends(gathering)
        if gathering.silent and missing.then == "abort":
            raise PeerMissing(f"{self._names(gathering.missing)} sent nothing for round {round_}")
        received = gathering.by_rank()
        self._account.expired += len(gathering.found) - len(received)
        return self._handed_over(received)

    def expire(self, kind: str, round_: int) -> None:
        """Drops messages of a kind that are older than a round; each counts as expired, once."""
        for old in self.mailbox.discard_before(kind, round_):
            place = (kind, old.round, old.sender)
            if self._given_up[place]:
                self._given_up[place] -= 1
            else:
                self._account.expired += 1

    def others_finished(self, ranks: Collection[int]) -> None:
        """These nodes have finished: all that they sent is here, and nothing can be sent to them any more."""
        self._finished_peers.finish(ranks)
        self.outbox.cut(ranks)
        if self._comeback is not None:
            self._comeback.finished(self._finished_peers.finished)
        for gathering in self.mailbox.awaited():
            self._miss_finished(gathering)
        self.mailbox.finished(self._finished_peers.gone)

    def others_live_again(self, ranks: Collection[int]) -> None:
        """These nodes, which had finished, have begun another life."""
        self._finished_peers.live_again(ranks)

    def come_back(self) -> None:
        """Marks a node that came back: it asks for models that were sent before and are lost."""
        server = None if self.server == self.rank else self.server
        self._comeback = Comeback(self.mailbox, self.outbox, server, self._leave_out)

    @property
    def came_back(self) -> bool:
        return self._comeback is not None

    def _silent(self, gathering: Gathering, since: float) -> None:
        if gathering.future.done():
            return
        then = self.plan.experiment.missing.then
        self.note("peer-missing", f"round {gathering.round}: {self._names(gathering.missing)}: {then}")
        if then != "wait":
            gathering.silent = True
            for sender in gathering.missing:
                if self.mailbox.heard.get(sender, -1.0) < since:
                    self._silent_peers.sends_nothing(sender)
            self.outbox.start_waiting()
            self._give_up(gathering.kind, gathering.round, gathering.missing)
            gathering.give_up()

    def _miss_finished(self, gathering: Gathering) -> None:
        """Does at once, for finished peers, what the experiment says about silent ones."""
        finished = gathering.missing & self._finished_peers.finished
        if gathering.future.done() or not finished:
            return
        then = self.plan.experiment.missing.then
        is_in_vain = len(gathering.found) + len(gathering.missing) - len(finished) < gathering.enough
        if is_in_vain and (unsaid := self._finished_peers.first_missed(finished)):
            self.note("peer-missing", f"round {gathering.round}: {self._names(unsaid)}: {then}")
        if then == "skip":
            for sender in sorted(finished):
                self._leave_out(gathering, sender)
        elif then == "abort" and is_in_vain:
            gathering.silent = True
            gathering.missing = finished
            gathering.give_up()

    def _apart(self, senders: Iterable[int]) -> tuple[list[int], list[int]]:
        """Senders to wait for, and those given up before and silent since: a dead peer costs its timeout once."""
        awaited: list[int] = []
        silent: list[int] = []
        for sender in senders:
            (silent if sender in self._silent_peers else awaited).append(sender)
        return awaited, silent

    def _sift(self, sender: int, message: Message) -> Message | None:
        """The part of a message that is for the algorithm; None if there is none."""
        if message.kind != GOODBYE:
            self._finished_peers.heard(sender)
        if message.payload:
            self._memory.answered(sender)
        if message.kind == GOODBYE:
            self._goodbye(sender)
        elif message.kind == AGAIN:
            self._memory.answer(sender, message.round)
        elif self._comeback is not None:
            return self._comeback.sift(sender, message)
        elif message.kind != PAST and message.kind not in ANSWERS:  # this node has not asked for those
            return message
        return None

    def _goodbye(self, sender: int) -> None:
        """A node that has left is not waited for, and nothing is sent to it."""
        self._silent_peers.sends_nothing(sender)
        self.outbox.cut([sender])
        for gathering in self.mailbox.gatherings():
            if sender in gathering.missing:
                self._leave_out(gathering, sender)
        self._finished_peers.leave(sender)
        self.mailbox.finished(self._finished_peers.gone)

    def _leave_out(self, gathering: Gathering, sender: int) -> None:
        self._give_up(gathering.kind, gathering.round, [sender])
        gathering.leave_out(sender)

    def _give_up(self, kind: str, round_: int, senders: Collection[int]) -> None:
        self._account.expired += len(senders)
        self._given_up.update((kind, round_, sender) for sender in senders)
