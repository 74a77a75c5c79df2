"""What the fabric says about itself: its files once a second, and its status when asked.

Takes the carrier and the ports, gives `Health` and `FabricStatus`; touches the engine's files.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from testbed.engines.fabric.accounts import Accounts
from testbed.engines.fabric.carrier import BACKLOG, Carrier
from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.delays import Delays
from testbed.engines.fabric.health import Health, NodeHealth, why_overloaded, write_health
from testbed.engines.fabric.ports import Ports
from testbed.network.graph import Network
from testbed.network.packets import Snapshot
from testbed.protocol.fabric import FabricStatus

LINKS, HEALTH = "links.jsonl", "health.json"
EVERY_S = 1.0
"""From one line of `links.jsonl` to the next."""


class Reports:
    """Looks at a carrier and its ports."""

    def __init__(self, config: FabricConfig, network: Network, carrier: Carrier, ports: Ports) -> None:
        self.delays = Delays(config.time_scale, time.monotonic())
        self._config = config
        self._carrier = carrier
        self._ports = ports
        engine = Path(config.engine)
        self._accounts = Accounts(engine / LINKS, network)
        self._health_path = engine / HEALTH
        self._snapshot: Snapshot | None = None
        """Of the last full second."""
        self._cpu_s = 0.0
        self._unwritten: str | None = None
        """Why the files are incomplete."""

    def write(self, t: float | None, *, is_last: bool = False) -> None:
        """A second is over. A full disk ends no run: the fabric says so, and carries on."""
        self._snapshot = self._carrier.packets.snapshot()
        health = self._health(t, self._snapshot)
        try:
            self._accounts.write(t, self._snapshot, self._config.time_scale, is_last=is_last)
            write_health(self._health_path, health)
        except OSError as problem:
            self._unwritten = problem.strerror or str(problem)

    def status(self, number: int, t: float | None, cut: set[int]) -> FabricStatus:
        return FabricStatus(
            number=number,
            t=t,
            attached=self._ports.attached,
            cut=tuple(sorted(cut)),
            packets=sum(port.packets_out for port in self._ports.ports),
            bytes=sum(port.bytes_out for port in self._ports.ports),
            dropped=self._dropped(),
            held_packets=self._carrier.held,
            held_bytes=self._carrier.held_bytes,
            lateness=self.delays.lateness.told(),
            cpu_s=_cpu_s(),
            overloaded=self._why_overloaded(),
        )

    def close(self) -> None:
        with suppress(OSError):
            self._accounts.close()

    def _health(self, t: float | None, snapshot: Snapshot) -> Health:
        cpu_s, before_s = _cpu_s(), self._cpu_s
        self._cpu_s = cpu_s
        each = zip(self._config.nodes, self._ports.ports, self._carrier.unfit, strict=True)
        return Health(
            t=t,
            overloaded=self._why_overloaded(),
            lateness=self.delays.lateness.told(),
            late_share=round(self.delays.late_share, 5),
            waits=self.delays.waits.told(),
            wait_share=round(self.delays.wait_share, 5),
            device_waits=self.delays.device_waits.told(),
            device_wait_mean_ms=round(self.delays.device_wait_mean_s * 1e3, 3),
            device_wait_share=round(self.delays.device_wait_share, 5),
            absent_s=round(self.delays.absent_s, 3),
            cpu_s=round(cpu_s, 3),
            cpu_share=round((cpu_s - before_s) / EVERY_S, 3),
            attached=self._ports.attached,
            held_frames=self._carrier.held,
            held_bytes=self._carrier.held_bytes,
            in_flight=snapshot.in_flight,
            no_path=snapshot.no_path,
            wire_sent=int(snapshot.pairs.offered_bytes.sum()),
            wire_received=int(snapshot.pairs.arrived_bytes.sum()),
            nodes=[
                NodeHealth(
                    name=node.name,
                    frames_in=port.frames_in,
                    packets_out=port.packets_out,
                    bytes_out=port.bytes_out,
                    unfit=dict(sorted(unfit.items())),
                    failed=dict(sorted(port.failed.items())),
                )
                for node, port, unfit in each
            ],
        )

    def _dropped(self) -> dict[str, int]:
        """By cause; for what links dropped as of the last full second."""
        found: Counter[str] = Counter()
        if self._snapshot is not None:
            links = self._snapshot.links
            found["queue"] = int(links.dropped_queue.sum())
            found["loss"] = int(links.dropped_loss.sum())
            found["down"] = int(links.dropped_down.sum())
            found["no_path"] = self._snapshot.no_path
        for unfit in self._carrier.unfit:
            found.update(unfit)
        for port in self._ports.ports:
            found.update(port.failed)
        return {cause: count for cause, count in sorted(found.items()) if count}

    def _why_overloaded(self) -> tuple[str, ...]:
        backlog = sum(unfit[BACKLOG] for unfit in self._carrier.unfit)
        unwritten = sum(port.unwritten for port in self._ports.ports)
        found = why_overloaded(self.delays, backlog, unwritten, time.monotonic())
        return found if self._unwritten is None else (*found, f"the engine's files are incomplete: {self._unwritten}")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
