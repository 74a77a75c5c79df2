"""FedAvg: a server lets some clients train its model, and averages the results.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017. A round
belongs to the server: it draws its clients, sends them the model, and takes the mean of their models, by their numbers
of samples. Others are not contacted. Slow clients can be left behind: by a deadline, or by asking more clients than are
needed.
"""

from __future__ import annotations

from testbed.catalogue.shares import part_of
from testbed.node.algorithm import Algorithm
from testbed.node.kinds import MODEL
from testbed.node.messages import Message, Received, UnusableModel
from testbed.node.node import Node
from testbed.node.sharing.base import whole

UPDATE = "update"
OVER = "over"


class FedAvg(Algorithm):
    """The server sends its model down whole; clients send theirs up as `sharing` says."""

    needs_server = True

    def __init__(
        self,
        participation: float = 1.0,
        weighted: bool = True,
        deadline: float | None = None,
        over_selection: float = 1.0,
    ) -> None:
        if not 0.0 < participation <= 1.0 or over_selection < 1.0:
            raise ValueError("participation is above 0 and at most 1, over_selection at least 1")
        self.participation = participation
        self.weighted = weighted
        self.deadline_s = deadline
        self.over_selection = over_selection

    async def serve(self, node: Node) -> None:
        clients = node.random("clients")
        wanted = part_of(len(node.learners), self.participation)
        asked = min(len(node.learners), part_of(wanted, self.over_selection))
        async for round_ in node.rounds():
            began_s = node.now()
            chosen = sorted(clients.sample(node.learners, asked))
            await node.send(chosen, whole(node.model, round_))
            updates = await node.gather(chosen, round_, UPDATE, enough=wanted, within_s=self.deadline_s)
            if updates:
                self.sharing.mix(node.model, updates, self._weights(updates))
            else:  # no client is there: without a pause, rounds would take no time
                patience_s = node.plan.experiment.missing.after_s if self.deadline_s is None else self.deadline_s
                await node.sleep(max(0.0, began_s + patience_s - node.now()))
        await node.send(node.learners, Message(OVER, node.rounds_done))

    async def run(self, node: Node) -> None:
        assert node.server is not None  # noqa: S101 - the plan has one
        while (received := await node.newest(MODEL, OVER, sender=node.server)) and received.message.kind == MODEL:
            async with node.one_round(received.round, evaluate=False):
                self.sharing.adopt(node.model, received)
                await node.train()
                model = self.sharing.encode(node.model, received.round)
                await node.send(node.server, model.of_kind(UPDATE).with_fields(samples=node.samples))

    def _weights(self, updates: list[Received]) -> list[float]:
        counts = [_samples(update) if self.weighted else 1 for update in updates]
        return [count / sum(counts) for count in counts]


def _samples(update: Received) -> int:
    count = update.message.fields.get("samples")
    if type(count) is not int or count < 1:
        raise UnusableModel(update.sender, f"an update by {count!r} samples")
    return count
