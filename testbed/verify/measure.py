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
from testbed.verify.others import iperfs, pings
from testbed.verify.places import Place
from testbed.verify.plan import Plan

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """All rows, and how the fabrics were while they were measured."""

    rows: tuple[Row, ...]
    overloaded: tuple[str, ...]

    @property
    def is_as_asked(self) -> bool:
        return all(row.verdict is not Verdict.WRONG for row in self.rows)


def measure(plan: Plan, config: FabricConfig, place: Place, tcp_settings: TcpSettings, tell: Tell) -> Measured:
    """Raises PreflightRefused where this machine denies the network."""
    known = Known()
    rows: list[Row] = []
    overloaded: list[str] = []
    with running_network(config, plan.ranks, place, "probes", tcp_settings) as running:
        tell(f"{len(plan.pairs)} pairs: round trips")
        rows += round_trips(plan, running, known)
        tell("losses")
        rows += all_losses(plan, running, known)
        overloaded += running.overloaded()
    rows += counted(plan, running.engine, known)
    with running_network(config, plan.ranks, place, "streams", tcp_settings) as running:
        rows += _streams(plan, running, known, tell)
        overloaded += running.overloaded()
    order = {pair.name: number for number, pair in enumerate(plan.pairs)}
    rows.sort(key=lambda row: order.get(row.pair, len(order)) if row.what != "share" else len(order))
    return Measured(tuple(rows), tuple(dict.fromkeys(overloaded)))


def _streams(plan: Plan, running: Running, known: Known, tell: Tell) -> list[Row]:
    rows: list[Row] = []
    if plan.tools.ping is not None:
        tell("ping")
        rows += pings(plan, plan.tools.ping, running)
    if plan.change is not None:
        tell("a live change")
        rows += live_change(plan.change, running)
    tell("queues and rates")
    rows += queues(plan, running, known.idle_s)
    rows += rates(plan, running)
    if plan.tools.iperf3 is not None:
        tell("iperf3")
        rows += iperfs(plan, plan.tools.iperf3, running)
    if plan.shared is not None:
        tell("a shared bottleneck")
        rows += shares(plan.shared, plan.effort, running)
    return rows
