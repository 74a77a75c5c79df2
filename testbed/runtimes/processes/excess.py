"""Ends nodes that print without end, or whose processes take more memory than a node may have.

Takes control and the nodes, gives nothing; looks at the nodes' logs and at what their processes have. What a single
process asks for, the kernel denies it at once (`limits`); nobody but this looks at what several have together.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from testbed.control.control import Control
from testbed.limits import LOG_BYTES, in_mib
from testbed.memory import told_bytes
from testbed.plan.containers import limits_of
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.backend import AllNodes

_EVERY_S, _SELDOM_S = 1.0, 10.0
_SHARE = 0.01
"""Of one core that may go into looking."""


class ExcessWatch:
    """For use inside a running event loop."""

    def __init__(self, plan: RunPlan, run: RunDirectory, control: Control, nodes: AllNodes) -> None:
        self._plan = plan
        self._run = run
        self._control = control
        self._nodes = nodes
        self._limits = limits_of(plan, plan.load_topology())

    async def watch(self) -> None:
        """Until the run is over."""
        while True:
            since_s = time.monotonic()
            for rank in self._control.living:
                words = self._too_much(rank)
                if words is not None and not self._control.has_ended(rank):
                    self._control.give_up(rank, words)
                    self._nodes.signal(rank, signal.SIGKILL)
            await asyncio.sleep(min(_SELDOM_S, max(_EVERY_S, (time.monotonic() - since_s) / _SHARE)))

    def _too_much(self, rank: int) -> str | None:
        log = self._run.node(self._plan.nodes[rank].name).log
        try:
            printed = log.lstat().st_size
        except OSError:
            printed = 0
        if printed > LOG_BYTES:
            return f"it has printed more than {in_mib(LOG_BYTES)}: its log is {in_mib(printed)}"
        processes, most = self._nodes.started_by(rank), self._limits[rank].memory_bytes
        if not processes:
            return None
        # Of a single process the kernel sees to all but what it shares, or could share, with others.
        kind, file = ("RssShmem", "status") if len(processes) == 1 else ("Pss", "smaps_rollup")
        try:
            taken = sum(_bytes(pid, file, kind) for pid in processes)
        except PermissionError:
            return "one of its processes hides how much memory it has"
        if taken > most:
            whose = "its process has" if len(processes) == 1 else f"its {len(processes)} processes have"
            return f"{whose} {in_mib(taken)} of memory; a node may have {in_mib(most)}"
        return None


def _bytes(pid: int, file: str, kind: str) -> int:
    """`Pss` is what the process shares with no others, and its part of what it does share."""
    try:
        return told_bytes(Path(f"/proc/{pid}/{file}"), kind)
    except (FileNotFoundError, ProcessLookupError):
        return 0
