"""The network up, everything measured, the network down.

Takes a plan of what is measured and the configuration of a fabric, gives rows; starts a fabric twice and a process for
every node involved, and leaves nothing behind. The asked-for network and the fabric's own are two arguments, so that a
test can have a fabric that is wrong.

Twice: in the first network there are only probes, whose packets are all known, so that its counters can be compared
with them exactly; in the second there is everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.engines.fabric.config import FabricConfig
from testbed.engines.namespace import TcpSettings
from testbed.verify.changes import live_change
from testbed.verify.idle import Known, all_losses, counted, round_trips
from testbed.verify.judge import Row, Verdict
from testbed.verify.loaded import queues, rates, shares
from testbed.verify.network import Running, running_network
from testbed.verify.ping_iperf3 import iperfs, pings
from testbed.verify.plan import Plan
from testbed.verify.probe_processes import MeasuringFailed
from testbed.verify.work_folder import WorkFolder

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """All rows, and how the fabrics were while they were measured."""

    rows: tuple[Row, ...]
    overloaded: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """What was not measured, and why, in words."""
    is_complete: bool = True
    """Whether nothing was left out that should have been measured."""

    @property
    def is_as_asked(self) -> bool:
        return all(row.verdict is not Verdict.WRONG for row in self.rows)


class _Steps:
    """One kind of measurement after the other: those that fail take nothing from the others."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.rows: list[Row] = []
        self.failed: list[str] = []

    def take(self, what: str, *kinds: Callable[[], list[Row]]) -> None:
        """Somebody is told that it begins; one that fails ends these."""
        self._tell(what)
        try:
            for kind in kinds:
                self.rows += kind()
        except MeasuringFailed as problem:
            self.failed.append(f"{what}: {problem.message}")


def measure(plan: Plan, config: FabricConfig, work: WorkFolder, tcp_settings: TcpSettings, tell: Tell) -> Measured:
    """Raises PreflightRefused where this machine denies the network."""
    known = Known()
    steps = _Steps(tell)
    overloaded: list[str] = []
    with running_network(config, plan.ranks, work, "probes", tcp_settings) as running:
        steps.take(f"{len(plan.pairs)} pairs: round trips", lambda: round_trips(plan, running, known))
        steps.take("losses", lambda: all_losses(plan, running, known))
        overloaded += running.overloaded()
    if not steps.failed:  # else nobody knows what the nodes have sent
        steps.rows += counted(plan, running.engine, known)
    with running_network(config, plan.ranks, work, "streams", tcp_settings) as running:
        _take_streams(steps, plan, running, known)
        overloaded += running.overloaded()
    order = {pair.name: number for number, pair in enumerate(plan.pairs)}
    steps.rows.sort(key=lambda row: order.get(row.pair, len(order)) if row.what != "share" else len(order))
    overloads = tuple(dict.fromkeys(overloaded))
    return Measured(tuple(steps.rows), overloads, tuple(steps.failed), is_complete=not steps.failed)


def _take_streams(steps: _Steps, plan: Plan, running: Running, known: Known) -> None:
    ping, iperf3, change, shared = plan.tools.ping, plan.tools.iperf3, plan.change, plan.shared
    if ping is not None:
        steps.take("ping", lambda: pings(plan, ping, running))
    if change is not None:
        steps.take("a live change", lambda: live_change(change, running))
    steps.take("queues and rates", lambda: queues(plan, running, known.idle_s), lambda: rates(plan, running))
    if iperf3 is not None:
        steps.take("iperf3", lambda: iperfs(plan, iperf3, running))
    if shared is not None:
        steps.take("a shared bottleneck", lambda: shares(shared, plan.effort, running))
