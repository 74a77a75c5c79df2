"""Brings the network up, measures everything, brings it down.

Takes a plan of measurements and a fabric's configuration, gives rows; starts a fabric twice and a process for every
node involved, and leaves nothing behind. The network asked for and the fabric's configuration are two arguments, so
that a test can run a fabric that is wrong.

Twice, because the first network carries only probes, whose packets are all known, so that its counters can be compared
with them exactly. The second carries everything else.
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
    """All rows, and the state of the fabrics while measuring."""

    rows: tuple[Row, ...]
    overloaded: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """What was not measured, and why."""
    is_complete: bool = True
    """Whether everything that should have been measured was."""

    @property
    def is_as_asked(self) -> bool:
        return all(row.verdict is not Verdict.WRONG for row in self.rows)


class _Steps:
    """Runs one kind of measurement after the other; a failed one does not stop the others."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.rows: list[Row] = []
        self.failed: list[str] = []

    def take(self, what: str, *kinds: Callable[[], list[Row]]) -> None:
        """Announces and runs the kinds in order; the first that fails ends them."""
        self._tell(what)
        try:
            for kind in kinds:
                self.rows += kind()
        except MeasuringFailed as problem:
            self.failed.append(f"{what}: {problem.message}")


def measure(plan: Plan, config: FabricConfig, work: WorkFolder, tcp_settings: TcpSettings, tell: Tell) -> Measured:
    """Measures the plan on a fabric of its own; raises PreflightRefused where this machine denies the network."""
    known = Known()
    steps = _Steps(tell)
    overloaded: list[str] = []
    with running_network(config, plan.ranks, work, "probes", tcp_settings) as running:
        steps.take(f"{len(plan.pairs)} pairs: round trips", lambda: round_trips(plan, running, known))
        steps.take("losses", lambda: all_losses(plan, running, known))
        overloaded += running.overloaded()
    if not steps.failed:  # otherwise what the nodes have sent is unknown
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
