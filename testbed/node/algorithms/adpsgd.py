"""AD-PSGD: asynchronous decentralized parallel stochastic gradient descent.

Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018, arXiv 1710.06952. Every node
trains without a pause. Meanwhile active nodes ask a random neighbour to average, and passive nodes answer; both models
become the mean of the two. Neighbours are always of different kinds, so that no circle of nodes waits for each other.
"""

from __future__ import annotations

import asyncio
from math import inf

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Received
from testbed.node.node import Node
from testbed.node.pairwise import REPLY, REQUEST, Answering, Asking
from testbed.node.sharing.base import Sharing
from testbed.node.state import State
from testbed.plan.pairing import partners_of

FREE = "free"
_LEAST_S = 1e-3
"""The least time between two exchanges: on a network without delays there would be no end of them at one instant."""


class ADPSGD(Algorithm):
    """Train; average with one neighbour at a time, meanwhile."""

    waits = False
    sends_to = 1

    def __init__(self, exchanges_per_iter: int | str = 1, timeout: float = 10.0) -> None:
        if exchanges_per_iter != FREE and (not isinstance(exchanges_per_iter, int) or exchanges_per_iter < 1):
            raise ValueError("exchanges_per_iter is a whole number from 1 on, or `free`")
        if timeout <= 0:
            raise ValueError("timeout is above 0")
        self._turns = _Turns(inf if exchanges_per_iter == FREE else float(exchanges_per_iter))
        self.timeout_s = timeout
        self._asking = Asking()
        self._answering = Answering()
        self._replied = asyncio.Event()

    async def run(self, node: Node) -> None:
        if type(self.sharing) is not Sharing:
            raise ValueError("AD-PSGD averages whole models: the only sharing it can have is `full`")
        is_active, partners = partners_of(node.plan)
        if not partners:
            node.note("no-partner", "it has no neighbour to average with, and learns alone")
        await (self._run_active if is_active else self._run_passive)(node, partners)

    async def _run_active(self, node: Node, partners: tuple[int, ...]) -> None:
        def take(reply: Received) -> None:
            self._asking.take(node, reply)
            self._replied.set()

        node.on(REPLY, take)
        averaging = node.spawn(self._average(node, partners))
        async for _ in node.rounds():
            self._turns.begin_round()
            await node.train()
        self._turns.end()
        await averaging

    async def _run_passive(self, node: Node, partners: tuple[int, ...]) -> None:
        node.on(REQUEST, lambda request: self._answering.answer(node, request))
        async for _ in node.rounds():
            await node.train()
        await self._answer_on(node, partners)

    # -- active nodes ----------------------------------------------------------------------------------------------

    async def _average(self, node: Node, partners: tuple[int, ...]) -> None:
        """One exchange after the other; at the end none stays half done."""
        random, longest_s, stop_s = node.random("partners"), 0.0, node.plan.experiment.stop.time_s or inf
        self._asking.begin(node)
        while await self._turns.next():
            await self._look_at_open(node)
            began_s = node.now()
            there = [rank for rank in partners if rank not in node.finished_peers]
            free = [rank for rank in there if rank not in self._asking.open]
            if not there or began_s + longest_s > stop_s:  # it would be decided on one side only
                self._turns.skip_round()
            elif await self._exchange(node, random.choice(free or there)):
                longest_s = max(longest_s, node.now() - began_s)
            if self._turns.each == inf and node.now() - began_s < _LEAST_S:
                await node.sleep(_LEAST_S)
        await self._finish_exchanges(node)

    async def _exchange(self, node: Node, partner: int) -> bool:
        """Asks, and takes the reply; after the timeout the exchange stays open, and others go on.

        A request that takes longer to leave is waited for: on a slow link, the next one would be as slow.
        """
        began_s = node.now()
        if partner not in self._asking.open:
            self._asking.ask(node, partner)
        while partner in self._asking.open:
            until_s = max(began_s, self._asking.quiet_since_s(node, partner)) + self._look_s(node)
            if partner in node.finished_peers or node.now() >= until_s:
                return False
            await self._reply_or_end(node, partner, until_s - node.now())
        return True

    async def _reply_or_end(self, node: Node, partner: int, timeout_s: float) -> None:
        """Waits until some reply has come, or the partner has finished, or for a time."""
        self._replied.clear()
        gone = node.spawn(node.receive(sender=partner, timeout_s=timeout_s))
        replied = node.spawn(self._replied.wait())
        await asyncio.wait((gone, replied), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        replied.cancel()

    async def _look_at_open(self, node: Node) -> None:
        """Repeats requests that had no reply. A finished node has answered all that it took."""
        await node.sleep(0.0)  # what has come from it is handled first
        self._asking.forget(node.finished_peers)
        self._asking.ask_again(node, self._look_s(node))

    async def _finish_exchanges(self, node: Node) -> None:
        """Waits for replies that are due, no longer than for any silent peer."""
        patience_s = node.plan.experiment.missing.after_s
        while True:
            await self._look_at_open(node)
            due = {rank: each.since_s + patience_s for rank, each in self._asking.open.items()}
            partner = max(due, key=lambda rank: due[rank], default=None)
            if partner is None or node.now() >= due[partner]:
                break
            await self._reply_or_end(node, partner, min(due[partner] - node.now(), self._look_s(node)))
        self._asking.withdraw(node)

    def _look_s(self, node: Node) -> float:
        """The time between two looks at a request: if none of it leaves from one to the next, others are asked."""
        return min(self.timeout_s, node.plan.experiment.missing.after_s) / 2

    # -- passive nodes ---------------------------------------------------------------------------------------------

    async def _answer_on(self, node: Node, partners: tuple[int, ...]) -> None:
        """Answers until all that ask have finished, or have been silent for too long."""
        done_s, patience_s = node.now(), node.plan.experiment.missing.after_s
        for partner in partners:
            while partner not in node.finished_peers:
                heard_s = max(done_s, self._answering.heard_s.get(partner, done_s))
                if node.now() >= heard_s + patience_s:
                    break
                await node.receive(sender=partner, timeout_s=heard_s + patience_s - node.now())

    # -- after a crash ---------------------------------------------------------------------------------------------

    def state(self) -> State:
        return {**self._asking.state(), **self._answering.state()}

    def restore(self, state: State) -> None:
        self._asking.restore(state)
        self._answering.restore(state)


class _Turns:
    """How many exchanges may begin in this round; what a round does not use is lost."""

    def __init__(self, each: float) -> None:
        self.each = each
        self._left = 0.0
        self._is_over = False
        self._changed = asyncio.Event()

    def begin_round(self) -> None:
        self._left = self.each
        self._changed.set()

    def skip_round(self) -> None:
        """No more exchanges in this round."""
        self._left = 0.0

    def end(self) -> None:
        self._is_over = True
        self._changed.set()

    async def next(self) -> bool:
        """Waits until one may begin; False after the last round."""
        while self._left < 1 and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        self._left -= 1
        return not self._is_over
