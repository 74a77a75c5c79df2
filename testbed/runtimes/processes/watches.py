"""What is looked at now and then while a run goes on, and may end it or name nodes in it.

Each watch takes the run's context, gives nothing; it runs beside the others in the run's loop until the run ends.

- `DeviceWatch` ends a run in which a node lives whose device the fabric has lost: nothing would reach it any more.
- `ExcessWatch` ends nodes that print without end, or whose processes take more memory together than a node may have.
- `UnheardWatch` names nodes of which nothing has been heard for a while: paused, stopped from outside, or busy.
- `StragglerWatch` kills nodes that do not end in time when they are to.
- `DirectoryWatch` ends a run whose directory is gone: its results could not be found.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from testbed.control import progress
from testbed.control.control import Control
from testbed.limits import LOG_BYTES, in_mib
from testbed.memory import told_bytes
from testbed.plan.containers import limits_of
from testbed.protocol.zygote import Died
from testbed.records import Event
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.context import RunContext
from testbed.runtimes.processes.node_actions import NodeActions

_DEVICES_EVERY_S = 0.5
_WITHOUT_DEVICE_S = 3.0
"""A device goes with its process, and the fabric may notice before the death is told of; so it may take so long."""
_EXCESS_EVERY_S, _EXCESS_SELDOM_S = 1.0, 10.0
_EXCESS_SHARE = 0.01
"""Of one core that may go into looking at what nodes take."""
_UNHEARD_EVERY_S = 1.0
_STRAGGLERS_EVERY_S = 0.2
_GRACE_S = 10.0
"""How long nodes may take to end in good order before they are killed."""
_LAST_WORK_S = 60.0
"""How long they may take where models remain to be evaluated, besides `_LAST_WORK_EACH_S` for every node."""
_LAST_WORK_EACH_S = 1.0
_DIRECTORY_EVERY_S = 1.0
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


class DeviceWatch:
    """Breaks the run down for nodes that live without a device."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._since_s: dict[tuple[int, int], float] = {}
        """By rank and life."""

    async def watch(self) -> None:
        control = self._context.control
        while not control.is_ending:
            await asyncio.sleep(_DEVICES_EVERY_S)
            now_s = time.monotonic()
            self._since_s = {life: self._since_s.get(life, now_s) for life in self._without_device()}
            lost = [rank for (rank, _), since_s in self._since_s.items() if now_s - since_s >= _WITHOUT_DEVICE_S]
            if lost and not control.is_ending:
                others = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
                name, why = self._context.plan.nodes[lost[0]].name, self._context.engine.lost_devices[lost[0]]
                control.break_down(f"{name}{others} is cut off though it lives: {why}")

    def _without_device(self) -> list[tuple[int, int]]:
        """Lives that go on all the same."""
        nodes = self._context.control.nodes
        return [
            (rank, life)
            for rank in sorted(self._context.engine.lost_devices)
            if (life := nodes.pid_of(rank)) is not None
            and not nodes.has_ended(rank)
            and not self._context.nodes.is_gone(rank)
        ]


class ExcessWatch:
    """Kills nodes that take too much.

    What a single process asks for, the kernel denies it at once (`limits`); what several have together is only seen
    here.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._limits = limits_of(context.plan, context.plan.load_topology())

    async def watch(self) -> None:
        control = self._context.control
        while True:
            since_s = time.monotonic()
            for rank in control.nodes.living:
                words = self._too_much(rank)
                if words is not None and not control.nodes.has_ended(rank):
                    control.give_up(rank, words)
                    self._context.nodes.signal(rank, signal.SIGKILL)
            took_s = time.monotonic() - since_s
            await asyncio.sleep(min(_EXCESS_SELDOM_S, max(_EXCESS_EVERY_S, took_s / _EXCESS_SHARE)))

    def _too_much(self, rank: int) -> str | None:
        log = self._context.directory.node(self._context.plan.nodes[rank].name).log
        try:
            printed = log.lstat().st_size
        except OSError:
            printed = 0
        if printed > LOG_BYTES:
            return f"it has printed more than {in_mib(LOG_BYTES)}: its log is {in_mib(printed)}"
        processes, most = self._context.nodes.started_by(rank), self._limits[rank].memory_bytes
        if not processes:
            return None
        # Of a single process the kernel sees to all but what it shares, or could share, with others.
        kind, file = ("RssShmem", "status") if len(processes) == 1 else ("Pss", "smaps_rollup")
        try:
            taken = sum(_bytes(pid, file, kind) for pid in processes)
        except PermissionError:
            return "one of its processes hides how much memory it has"
        if taken > most:
            subject = "its process has" if len(processes) == 1 else f"its {len(processes)} processes have"
            return f"{subject} {in_mib(taken)} of memory; a node may have {in_mib(most)}"
        return None


def _bytes(pid: int, file: str, kind: str) -> int:
    """`Pss` is what the process shares with no others, and its part of what it does share."""
    try:
        return told_bytes(Path(f"/proc/{pid}/{file}"), kind)
    except (FileNotFoundError, ProcessLookupError):
        return 0


class UnheardWatch:
    """Says which nodes are silent, once each time that they fall silent; writes to control's log."""

    def __init__(self, context: RunContext, actions: NodeActions) -> None:
        self._context = context
        self._actions = actions

    async def watch(self) -> None:
        control, known = self._context.control, set[int]()
        while not control.is_ending:
            await asyncio.sleep(_UNHEARD_EVERY_S)
            silent = control.nodes.unheard(progress.UNHEARD_AFTER_S)
            new = [rank for rank in silent if rank not in known]
            known = set(silent)
            for rank in new:
                detail = f"nothing heard of it for {silent[rank]:.0f} s{self._why(rank)}"
                name = self._context.plan.nodes[rank].name
                self._context.log.write(Event(control.now(), "unheard", detail, node=name))
            if new:
                self._context.say(progress.unheard_words(self._named(new)))

    def silent(self) -> tuple[str, ...]:
        """The nodes that are silent now, each with why if that is known."""
        return self._named(list(self._context.control.nodes.unheard(progress.UNHEARD_AFTER_S)))

    def _named(self, ranks: Sequence[int]) -> tuple[str, ...]:
        return tuple(f"{self._context.plan.nodes[rank].name}{self._why(rank)}" for rank in ranks)

    def _why(self, rank: int) -> str:
        return " (paused)" if rank in self._actions.paused else ""


class StragglerWatch:
    """Lets no node take for ever to end."""

    def __init__(self, context: RunContext, actions: NodeActions, died: Callable[[Died], None]) -> None:
        self._context = context
        self._actions = actions
        self._died = died

    async def watch(self) -> None:
        control, ended_at = self._context.control, None
        while True:
            await asyncio.sleep(_STRAGGLERS_EVERY_S)
            now = time.monotonic()
            if control.is_ending:
                self._actions.resume_all()
            ended_at = (ended_at or now) if control.nodes.living and not control.nodes.working else None
            since = control.stopped_at if control.stopped_at is not None else ended_at
            if since is not None and now - since >= self._patience_s():
                self._kill_all()

    def _kill_all(self) -> None:
        control, nodes = self._context.control, self._context.nodes
        for rank in control.nodes.living:
            if control.is_hurried:
                control.nodes.plan_death(rank)
            nodes.signal(rank, signal.SIGKILL)
            if nodes.is_gone(rank) and (life := control.nodes.pid_of(rank)) is not None:
                # The zygote, which tells of deaths, may hang; a moment later the death is known without it.
                self._died(Died(rank, life, signal.SIGKILL))
        if control.is_ending:
            control.expect_no_more()

    def _patience_s(self) -> float:
        if self._context.control.is_hurried:
            return _GRACE_S
        # What is evaluated takes as long as ever, what is on its way longer.
        plan = self._context.plan
        return _LAST_WORK_S * plan.time_scale + _LAST_WORK_EACH_S * len(plan.nodes)


class DirectoryWatch:
    """Breaks the run down when the directory is not the one of the beginning any more."""

    def __init__(self, directory: RunDirectory) -> None:
        self._path = directory.path
        found = self._path.stat()
        self._identity = found.st_dev, found.st_ino

    async def watch(self, control: Control) -> None:
        while not control.is_ending:
            if not self._is_there():
                control.break_down(f"the run directory {self._path} was removed or renamed while the run went on")
            await asyncio.sleep(_DIRECTORY_EVERY_S)

    def _is_there(self) -> bool:
        """What cannot be looked at now may be: a file system of the network has its moments."""
        try:
            found = self._path.stat()
        except OSError as problem:
            return problem.errno not in _GONE
        # Mounted into a container, a directory that was removed outside is there still, without a name.
        return found.st_nlink > 0 and (found.st_dev, found.st_ino) == self._identity
