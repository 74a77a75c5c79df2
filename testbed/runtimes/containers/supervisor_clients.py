"""Supervisor clients: control's side of the learners' containers, which connect by themselves when they start.

Takes the folder of sockets, gives news of nodes; touches a socket for each of them. Each container sees only its own,
so none can claim to be another.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed.control.packets import Entrance, PacketLink
from testbed.control.token_bucket import TokenBucket
from testbed.protocol.message import ProtocolError
from testbed.protocol.zygote import Died, Fork, Forked
from testbed.runtimes.containers import SUPERVISOR_SOCKET
from testbed.runtimes.containers.container_paths import folder_of_node
from testbed.runtimes.containers.supervisor_messages import (
    ATTACH,
    FROM_SUPERVISOR,
    KILL,
    PAUSE,
    RESUME,
    Came,
    Do,
    Paused,
    Used,
)
from testbed.runtimes.processes.backend import News

_TIMEOUT_S, _TIMEOUT_EACH_S = 120.0, 4.0
"""How long a container may take to connect: for a run, and in addition for every node."""
_FIRST_S, _FIRST_EACH_S = 20.0, 0.5
"""How long to wait for all containers before starting the evaluator: for a run, and in addition for every node."""
_ANSWER_S = 5.0
"""How long a supervisor may take to report that its learner is paused."""


@dataclass
class _Container:
    link: PacketLink | None = None
    order: Fork | None = None
    """An order that was not sent yet."""
    limit: asyncio.TimerHandle | None = None
    has_lived: bool = False
    """Since the container's last start."""
    life: int = 0
    is_alive: bool = False
    cpu_s: float = 0.0
    paused: asyncio.Future[bool] | None = None
    """Set to whether the paused learner keeps a compute slot."""


class SupervisorClients:
    """The connections to all supervisors of a run. For use inside a running event loop."""

    def __init__(
        self, sockets: Path, names: list[str], absent: tuple[int, ...], returns: Mapping[int, int], news: News
    ) -> None:
        """`absent` are the ranks that join later; `returns` says how often each container is started again."""
        self._absent = absent
        self._returns = dict(returns)
        self._names = names
        self._news = news
        self._timeout_s = _TIMEOUT_S + _TIMEOUT_EACH_S * len(names)
        self._containers = [_Container() for _ in names]
        self._to_come = set(range(len(names))) - set(absent)
        self._all_have_come = asyncio.Event()
        self._entrances: list[Entrance] = []
        try:
            for rank in range(len(names)):
                path = folder_of_node(sockets, rank) / SUPERVISOR_SOCKET
                path.unlink(missing_ok=True)
                self._entrances.append(Entrance(path, partial(self._come, rank)))
        except BaseException:
            self.close()
            raise

    async def wait_until_connected(self) -> None:
        """Waits for the containers that the run starts with. After a timeout, slow ones may connect later."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_have_come.wait(), _FIRST_S + _FIRST_EACH_S * len(self._names))

    def give_up(self) -> None:
        """Ends `wait_until_connected`."""
        self._all_have_come.set()

    def fork(self, rank: int, rejoin: str | None, first_round: int) -> None:
        """Starts the node as soon as its container is connected."""
        container = self._containers[rank]
        container.order = Fork(rank, rejoin, first_round, self._absent)
        self._give_order(container)
        if container.order is not None:
            container.limit = asyncio.get_running_loop().call_later(self._timeout_s, self._never_came, rank)

    def why_not_again(self, rank: int) -> str | None:
        if self._containers[rank].life <= self._returns.get(rank, 0):
            return None
        return "cannot come back: its container is started again only as often as the topology's events say"

    def may_come_back(self, rank: int, times: int) -> None:
        """Raises the number of restarts that Docker, Compose or the cluster allows the node's container."""
        self._returns[rank] = max(times, self._returns.get(rank, 0))

    @property
    def started_again(self) -> list[int]:
        """Ranks of nodes whose containers may be restarted after a failure, whether control wants them or not."""
        return [rank for rank, times in sorted(self._returns.items()) if times]

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Has the supervisor send a signal to the learner."""
        words = {signal.SIGKILL: KILL, signal.SIGSTOP: PAUSE, signal.SIGCONT: RESUME}
        link = self._containers[rank].link
        if link is not None:
            link.send(Do(words[number]))

    async def pause(self, ranks: Collection[int]) -> list[int]:
        """Pauses learners, as far as their supervisors answer in time; gives the ranks that keep a compute slot."""
        loop = asyncio.get_running_loop()
        asked = {rank: loop.create_future() for rank in ranks if self._containers[rank].link is not None}
        for rank, future in asked.items():
            self._settle(self._containers[rank], keeps_slot=False)
            self._containers[rank].paused = future
            self.signal(rank, signal.SIGSTOP)
        if asked:
            await asyncio.wait(asked.values(), timeout=_ANSWER_S)
        return [rank for rank, future in asked.items() if future.done() and future.result()]

    def busy_s(self, rank: int) -> float:
        """Processor time of the node, as last reported."""
        return self._containers[rank].cpu_s

    def close(self) -> None:
        """Closes all connections. Supervisors that wait for an order end."""
        for entrance in self._entrances:
            entrance.close()
        for container in self._containers:
            if container.limit is not None:
                container.limit.cancel()
            if container.link is not None:
                container.link.close()

    def _come(self, rank: int, connection: socket.socket) -> None:
        container = self._containers[rank]
        if container.link is not None:  # a second connection can only be the learner, which may not send here
            connection.close()
            return
        self._to_come.discard(rank)
        if not self._to_come:
            self._all_have_come.set()
        container.has_lived = False
        container.link = PacketLink(
            connection, partial(self._hear, rank), partial(self._hung_up, rank), TokenBucket(lambda: None)
        )
        if container.life == 0 and container.order is None and rank not in self._absent:
            container.link.send(Do(ATTACH))  # the learner is started later, when the evaluator is loaded
        self._give_order(container)

    def _give_order(self, container: _Container) -> None:
        if container.link is None or container.order is None or container.is_alive:
            return
        container.link.send(container.order)
        if not container.has_lived:  # else this start of the container ends, and the order waits for the next one
            container.order = None
            if container.limit is not None:
                container.limit.cancel()

    def _hear(self, rank: int, packet: bytes) -> None:
        container = self._containers[rank]
        with suppress(ProtocolError):
            match FROM_SUPERVISOR.read(packet):
                case Came():
                    pass
                case Forked() if not container.is_alive:
                    container.is_alive = container.has_lived = True
                    container.life += 1
                    container.cpu_s = 0.0
                    self._news.began(rank, container.life)
                case Died(status=status):
                    self._is_over(rank, status)
                case Used(cpu_s=cpu_s):
                    container.cpu_s = cpu_s
                case Paused(keeps_slot=keeps_slot):
                    self._settle(container, keeps_slot=keeps_slot)

    @staticmethod
    def _settle(container: _Container, *, keeps_slot: bool) -> None:
        if container.paused is not None and not container.paused.done():
            container.paused.set_result(keeps_slot)
        container.paused = None

    def _hung_up(self, rank: int) -> None:
        self._containers[rank].link = None
        self._settle(self._containers[rank], keeps_slot=False)
        self._is_over(rank, signal.SIGKILL)  # the container was killed before it could report

    def _is_over(self, rank: int, status: int) -> None:
        container = self._containers[rank]
        if container.is_alive:
            container.is_alive = False
            self._news.died(Died(rank, container.life, status))

    def _never_came(self, rank: int) -> None:
        name = self._names[rank]
        self._news.gone(
            f"the container of {name} has not connected within {self._timeout_s:.0f} s: "
            "`docker ps --all` says what became of it"
        )
