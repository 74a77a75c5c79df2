"""What commands let happen to a run that goes on: to its nodes, its links, and between groups of nodes.

Takes commands, gives replies; has them done and undone, each with its planned and applied time in control's log. An
undoing belongs to the run, not to the command. The last word counts: a node that is paused for ten seconds, and then
for a minute, is paused for that minute. The topology's events are words, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import msgspec

from testbed.control.commands import Divide, Done, Flap, Inject, Reply, Reunite
from testbed.errors import PreflightRefused, TestbedError, UsageProblem
from testbed.network.change_words import properties
from testbed.protocol.fabric import Heal, HoldDown, LetGo, Partition, ResetLink, SetLink
from testbed.records import Event
from testbed.runtimes.processes.context import RunContext
from testbed.runtimes.processes.node_actions import KILL, NodeActions, checked_action, not_done
from testbed.runtimes.runtime import UNSHAPED
from testbed.topologies.model import UNDONE_BY, NodeAction
from testbed.units import UNLIMITED, format_latency, format_rate, format_size

_NEED_ENGINE: dict[str, str] = {
    NodeAction.CRASH: "`kill` can be done",
    NodeAction.DISCONNECT: "run with --engine fabric",
    NodeAction.RECONNECT: "run with --engine fabric",
}
_MOST_NAMED = 3
_MOST_FLAPS = 100_000
_LONGEST_SLEEP_S = 3600.0
_KIND: dict[str, str] = {
    KILL: "life",
    NodeAction.CRASH: "life",
    NodeAction.LEAVE: "life",
    NodeAction.JOIN: "life",
    NodeAction.PAUSE: "pause",
    NodeAction.RESUME: "pause",
    NodeAction.DISCONNECT: "network",
    NodeAction.RECONNECT: "network",
}
"""An action ends what one of the same kind had begun."""


Injection = SetLink | ResetLink | Inject | Divide | Reunite | Flap


class Injections:
    """For use inside a running event loop."""

    def __init__(self, context: RunContext, actions: NodeActions, failed: Callable[[BaseException], None]) -> None:
        """`failed` is told of problems that no command waits for any more."""
        self._plan = context.plan
        self._control = context.control
        self._log = context.log
        self._engine = context.engine
        self._actions = actions
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._latest: dict[tuple[str, int], int] = {}
        """By kind and rank, the number of the last word."""
        self._number = 0
        self._partitions: list[str] = []
        self._divided = 0

    @property
    def is_waiting(self) -> bool:
        """Whether something is still to be undone."""
        return bool(self._tasks)

    def close(self) -> None:
        """Nothing is undone any more."""
        for task in self._tasks:
            task.cancel()

    def note(self, action: str, ranks: Collection[int]) -> int:
        """An action happens to these nodes: what of its kind was begun before is not undone any more."""
        self._number += 1
        for rank in ranks:
            self._latest[_KIND[action], rank] = self._number
        return self._number

    def obey(self, command: Injection) -> AsyncIterator[Reply]:
        """Does what a command asks; gives what is said of it, as it is done and undone."""
        match command:
            case SetLink() | ResetLink():
                return self._change_link(command)
            case Inject():
                return self._inject(command)
            case Divide():
                return self._divide(command)
            case Reunite():
                return self._reunite(command)
            case Flap():
                return self._flap(command)

    # -- nodes -----------------------------------------------------------------------------------------------------

    async def _inject(self, command: Inject) -> AsyncIterator[Reply]:
        """Something happens to nodes; it is left out for those that it cannot happen to, unless that is all."""
        action = checked_action(command.action)
        self._check(action, (*command.ranks, *command.restarts))
        for rank, times in command.restarts.items():
            self._actions.may_come_back(rank, times)
        undo = NodeAction.JOIN.value if action == KILL else UNDONE_BY.get(NodeAction(action))
        if command.for_s is not None and undo is None:
            raise UsageProblem(f"nothing undoes {action}")
        possible, said = self._possible(action, command.ranks)
        if command.for_s is not None and undo == NodeAction.JOIN:
            self._check_they_can_come_back(possible)
        mine = self.note(action, possible)
        t = await self._actions.happen(action, possible, self._control.now())
        what = f"{action}: {len(possible)} node{'s' if len(possible) != 1 else ''}{said}"
        if command.for_s is None or undo is None:
            yield Done(t, what)
            return
        until_t = t + command.for_s
        undone = self._later(until_t, lambda: self._undo(undo, _KIND[action], possible, mine, until_t))
        yield Done(t, what, until_t)
        yield Done(await undone, str(undo))

    async def _undo(self, action: str, kind: str, ranks: tuple[int, ...], mine: int, planned_t: float) -> None:
        still = tuple(
            rank
            for rank in ranks
            if self._latest.get((kind, rank)) == mine and self._actions.why_not(action, rank) is None
        )
        if still:
            await self._actions.happen(action, still, planned_t)

    def _check(self, action: str, ranks: tuple[int, ...]) -> None:
        for rank in ranks:
            if not 0 <= rank < len(self._plan.nodes):
                raise UsageProblem(f"there is no rank {rank}")
        if self._plan.engine == UNSHAPED and (hint := _NEED_ENGINE.get(action)):
            raise PreflightRefused("this run's network is plain loopback: no node can be cut off in it", hint)

    def _check_they_can_come_back(self, ranks: tuple[int, ...]) -> None:
        for rank in ranks:
            if (words := self._actions.why_not_back(rank)) is not None:
                raise PreflightRefused(f"{self._plan.nodes[rank].name} {words}", "leave out --for")

    def _possible(self, action: str, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
        why = {rank: self._actions.why_not(action, rank) for rank in dict.fromkeys(ranks)}
        possible = tuple(rank for rank, words in why.items() if words is None)
        impossible = [f"{self._plan.nodes[rank].name} {words}" for rank, words in why.items() if words is not None]
        said = ", ".join(impossible[:_MOST_NAMED]) + (" …" if len(impossible) > _MOST_NAMED else "")
        if not possible:
            never = bool(why) and all(words == self._actions.why_not_back(rank) for rank, words in why.items())
            raise (PreflightRefused if never else UsageProblem)(f"nothing to {action}: {said or 'no nodes'}")
        return possible, f"; not those: {said}" if said else ""

    # -- groups ----------------------------------------------------------------------------------------------------

    async def _divide(self, command: Divide) -> AsyncIterator[Reply]:
        """Groups cannot reach each other."""
        self._divided += 1
        name = f"by-hand-{self._divided}"
        _check_groups(command.groups)
        asked_t = self._control.now()
        since_s = await self._engine.change(lambda number: Partition(number, name, command.groups))
        self._partitions.append(name)
        t = self._told("partition", f"{name}: {self._groups_in_words(command.groups)}", since_s, asked_t)
        if command.for_s is None:
            yield Done(t, f"partition {name}")
            return
        until_t = t + command.for_s
        undone = self._later(until_t, lambda: self._heal(name, until_t))
        yield Done(t, f"partition {name}", until_t)
        yield Done(await undone, "heal")

    async def _reunite(self, command: Reunite) -> AsyncIterator[Reply]:
        """Partitions end."""
        if not self._partitions:
            if self._plan.engine == UNSHAPED:
                raise PreflightRefused("this run's network is plain loopback: it cannot be divided")
            raise UsageProblem(
                "there is no partition that was made by hand", "those of the topology heal by its events"
            )
        if command.name is not None and command.name not in self._partitions:
            raise UsageProblem(f"there is no partition {command.name}", f"there is: {', '.join(self._partitions)}")
        asked_t = self._control.now()
        names = list(self._partitions) if command.name is None else [command.name]
        for name in names:
            await self._heal(name, asked_t)
        yield Done(self._control.now(), f"heal: {', '.join(names)}")

    async def _heal(self, name: str, planned_t: float) -> None:
        if name not in self._partitions:
            return  # another command was faster
        self._partitions.remove(name)
        try:
            since_s = await self._engine.change(lambda number: Heal(number, name))
        except TestbedError:
            self._partitions.append(name)  # it is there still, and can be healed later
            raise
        self._told("heal", name, since_s, planned_t)

    def _groups_in_words(self, groups: tuple[tuple[int, ...], ...]) -> str:
        return " / ".join(
            ", ".join(self._plan.nodes[rank].name for rank in group[:_MOST_NAMED])
            + (f" and {len(group) - _MOST_NAMED} more" if len(group) > _MOST_NAMED else "")
            for group in groups
        )

    # -- links -----------------------------------------------------------------------------------------------------

    async def _change_link(self, command: SetLink | ResetLink) -> AsyncIterator[Reply]:
        """Links are changed, or again what the topology makes them."""
        asked_t = self._control.now()
        since_s = await self._engine.change(lambda number: msgspec.structs.replace(command, number=number))
        if isinstance(command, SetLink):
            yield Done(self._told("link-set", f"{_ends(command)}: {_wanted(command)}", since_s, asked_t))
        else:
            yield Done(self._told("link-reset", _ends(command), since_s, asked_t))

    async def _flap(self, command: Flap) -> AsyncIterator[Reply]:
        """A link goes down and comes up, some times."""
        if command.down_s <= 0 or not 1 <= command.times <= _MOST_FLAPS:
            raise UsageProblem("a link flaps at least once, and is down for a while")
        if command.times > 1 and command.every_s <= command.down_s:
            raise UsageProblem("a link must come up before it goes down again", "make --every longer than --for")
        found = await self._engine.links(command.origin, command.dest, both=command.both)
        if not any(link.up for link in found.links):
            raise UsageProblem(f"{_ends(command)} is down already")
        t = await self._up_or_down(command, self._control.now(), up=False)
        until_t = t + (command.times - 1) * command.every_s + command.down_s

        async def rest() -> None:
            for turn in range(command.times):
                begins_t = t + turn * command.every_s
                if turn:
                    await self._sleep_until(begins_t)
                    await self._up_or_down(command, begins_t, up=False)
                await self._sleep_until(begins_t + command.down_s)
                await self._up_or_down(command, begins_t + command.down_s, up=True)

        undone = self._later(None, rest)
        yield Done(t, f"flap: {_ends(command)}", until_t)
        yield Done(await undone, "up")

    async def _up_or_down(self, flap: Flap, planned_t: float, *, up: bool) -> float:
        """Nothing is set of the link: what it is besides may change meanwhile."""
        wish = LetGo if up else HoldDown
        since_s = await self._engine.change(lambda number: wish(number, flap.origin, flap.dest, flap.both))
        return self._told("flap", f"{_ends(flap)}: {'up' if up else 'down'}", since_s, planned_t)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _told(self, what: str, detail: str, since_s: float, planned_t: float) -> float:
        """Writes into control's log what was applied; gives when."""
        t = self._control.at(since_s)
        self._log.write(Event(t, what, detail, planned_t=planned_t))
        return t

    def _later(self, at_t: float | None, do: Callable[[], Awaitable[None]]) -> asyncio.Future[float]:
        """It will be done, whether or not that is waited for; gives when it was."""
        told: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def undo() -> None:
            if at_t is not None:
                await self._sleep_until(at_t)
            try:
                await do()
            except TestbedError as problem:
                self._log.write(Event(self._control.now(), "not-done", not_done(problem)))
            if not told.done():
                told.set_result(self._control.now())

        task = asyncio.get_running_loop().create_task(undo())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return told

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failed(problem)

    async def _sleep_until(self, t: float) -> None:
        """Emulated time, which may not have begun yet."""
        while (left_s := t - self._control.now()) > 0:
            await asyncio.sleep(min(left_s * self._plan.time_scale, _LONGEST_SLEEP_S))


def _check_groups(groups: tuple[tuple[int, ...], ...]) -> None:
    if len(groups) < 2 or not all(groups):
        raise UsageProblem("a partition is between at least two groups of nodes")
    everyone = [rank for group in groups for rank in group]
    if len(set(everyone)) != len(everyone):
        raise UsageProblem("a node can be in one group only")


def _ends(command: SetLink | ResetLink | Flap) -> str:
    """Such as `link a <-> hub`."""
    if command.origin is None or command.dest is None:
        return "all links"
    return f"link {command.origin} {'<->' if command.both else '->'} {command.dest}"


def _wanted(change: SetLink) -> str:
    """Such as `latency 50ms, loss 1%`."""
    said = properties(change.up, change)
    if change.queue_ms is not None:
        said.append("no queue limit" if change.queue_ms == UNLIMITED else f"queue {format_latency(change.queue_ms)}")
    if change.queue_bytes is not None and change.queue_bytes != UNLIMITED:
        said.append(f"queue {format_size(int(change.queue_bytes))}")
    if change.background_bps is not None:
        said.append(f"background {format_rate(change.background_bps)}")
    return ", ".join(said)
