"""Looks at a run's processes and files while it goes on: processor time, memory, the fabric's counts.

Takes a run directory, gives figures. Those of the steady part are differences between two moments: when every node has
done a quarter of the rounds, and three quarters. At the second one memory is measured, and then some nodes' packets are
captured for a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from captured_frames import Captures
from process_figures import computing_s, cpu_s, mean_pss_mib, sum_pss_mib
from tables import Row

from testbed.engines.fabric.health import Health
from testbed.engines.fabric.reports import HEALTH
from testbed.errors import TestbedError
from testbed.memory import available_bytes
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.live import pids_of_nodes
from testbed.runtimes.tracking.proc_stat import children_of, descendants_of
from testbed.runtimes.tracking.process_records import read_record

MOST_LOOKED_AT = 16
"""Nodes whose memory is measured: the kernel holds each up for some milliseconds meanwhile."""
_MIB = 1 << 20
_NODE = "node "


@dataclass(frozen=True)
class Sums:
    """Since the run's start, at one moment."""

    rounds: int
    """Of all nodes."""
    command_s: float
    """Processor time of the command's own process: control, and in virtual time all but training."""
    nodes_s: float
    """Of the nodes' processes."""
    computing_s: float
    """Of that, training and evaluation."""
    fabric_s: float
    fabric: Health | None
    """Of the last full second."""

    def until(self, later: Sums) -> Row:
        """What a round costs, and a frame of the fabric."""
        node_rounds = max(1, later.rounds - self.rounds)
        nodes_s, computing_s = later.nodes_s - self.nodes_s, later.computing_s - self.computing_s
        found: Row = {"command_ms_per_node_round": _ms(later.command_s - self.command_s, node_rounds)}
        if nodes_s:
            found["cpu_ms_per_node_round"] = _ms(nodes_s, node_rounds)
            found["outside_training_ms_per_node_round"] = _ms(nodes_s - computing_s, node_rounds)
        if self.fabric is None or later.fabric is None:
            return found
        before, after = self.fabric, later.fabric
        frames = max(1, sum(each.frames_in for each in after.nodes) - sum(each.frames_in for each in before.nodes))
        packets = sum(each.packets_out for each in after.nodes) - sum(each.packets_out for each in before.nodes)
        return found | {
            "data_plane": after.data_plane,
            "fabric_ms_per_node_round": _ms(later.fabric_s - self.fabric_s, node_rounds),
            "fabric_us_per_frame": round((after.cpu_s - before.cpu_s) / frames * 1e6, 2),
            "packets_per_frame": round(packets / frames, 2),
        }


def _ms(seconds: float, count: int) -> float:
    return round(seconds / count * 1e3, 2)


class WatchedRun:
    """A run that `look` looks at again and again."""

    def __init__(self, run: RunDirectory, command: int, rounds: int, captured: int, *, in_containers: bool) -> None:
        """`command` is the process that deploys; the packets of `captured` nodes are captured."""
        self._run = run
        self._command = command
        self._captured = captured
        self._in_containers = in_containers
        self._free = self._least_free = available_bytes()
        early, late = max(1, rounds // 4), max(2, rounds * 3 // 4)
        self._steps = [(early, self._begin), (late, self._measure), (late + 1, self._end_captures)]
        """What is done when every node has done so many rounds."""
        self._first: Sums | None = None
        self._steady: Row = {}
        self._captures: Captures | None = None
        self._asked = 0
        """Of the nodes in the order of their names: so many have done the rounds that it waits for."""

    def look(self) -> None:
        self._least_free = min(self._least_free, available_bytes())
        if self._steps and self._have_done(self._steps[0][0]):
            _, step = self._steps.pop(0)
            step()

    def figures(self) -> Row:
        """After the run."""
        self._end_captures()
        frames = {} if self._captures is None else self._captures.row()
        return self._steady | frames | {"memory_fall_mib": round((self._free - self._least_free) / _MIB)}

    def _begin(self) -> None:
        self._first = self._sums()

    def _measure(self) -> None:
        assert self._first is not None, "it is measured before"
        self._steady = self._first.until(self._sums()) | self._memory()
        ranks = [*self._pids()][: self._captured]
        with suppress(TestbedError):  # no fabric, or the run has just ended
            self._captures = Captures(self._run, ranks) if ranks else None

    def _end_captures(self) -> None:
        if self._captures is not None:
            self._captures.end()

    def _have_done(self, rounds: int) -> bool:
        """Whether every node has done so many; nodes that have are not asked again."""
        names = self._run.node_names()
        while self._asked < len(names) and rounds_of(self._run.node(names[self._asked]).journal) >= rounds:
            self._asked += 1
        if not names or self._asked < len(names):
            return False
        self._asked = 0
        return True

    def _sums(self) -> Sums:
        pids = self._pids().values()
        fabric = self._others().get("fabric")
        rounds = sum(rounds_of(self._run.node(name).journal) for name in self._run.node_names())
        health = None
        with suppress(OSError):
            health = msgspec.json.decode((self._run.path / "engine" / HEALTH).read_bytes(), type=Health)
        return Sums(
            rounds=rounds,
            command_s=cpu_s(self._command),
            nodes_s=sum(map(cpu_s, pids)),
            computing_s=sum(map(computing_s, pids)),
            fabric_s=0.0 if fabric is None else cpu_s(fabric),
            fabric=health,
        )

    def _memory(self) -> Row:
        nodes = [*self._pids().values()]
        if not nodes:  # virtual time
            return {"run_pss_mib": sum_pss_mib({self._command, *descendants_of(self._command)})}
        found: Row = {"pss_mib": mean_pss_mib(nodes[:: max(1, len(nodes) // MOST_LOOKED_AT)])}
        of_nodes = {*nodes, *(child for pid in nodes for child in descendants_of(pid))}
        for name, pid in self._others().items():
            below = {*descendants_of(pid)} if name == "zygote" else set[int]()
            found[f"{name}_pss_mib"] = sum_pss_mib({pid, *below} - of_nodes)
        return found

    def _pids(self) -> dict[int, int]:
        """Processes of the nodes, by rank; in containers below their first processes, and in any order."""
        if self._in_containers:
            pids = [each for first in pids_of_nodes(self._run).values() for each in children_of(first)]
            return dict(enumerate(pids))
        return {int(name.removeprefix(_NODE)): pid for name, pid in self._records() if name.startswith(_NODE)}

    def _others(self) -> dict[str, int]:
        return {name: pid for name, pid in self._records() if not name.startswith(_NODE)}

    def _records(self) -> Sequence[tuple[str, int]]:
        record = read_record(self._run)
        return [] if record is None else [(each.name, each.pid) for each in record.processes]


def rounds_of(journal: Path) -> int:
    try:
        return journal.read_bytes().count(b'"type":"round"')
    except OSError:
        return 0
