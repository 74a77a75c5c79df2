"""What the fabric says about itself: its files once a second, and its status when asked.

Takes a data plane, gives `Health` and `FabricStatus`; touches the engine's files. A thread of its own writes these: no
packet waits for that where the data plane leaves Python's lock alone.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Thread

from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.data_plane import DataPlane, Figures
from testbed.engines.fabric.health import Health, NodeHealth, why_overloaded, write_health
from testbed.engines.fabric.traffic_log import TrafficLog
from testbed.network.graph import Network
from testbed.network.packets import Snapshot
from testbed.protocol.fabric import FabricStatus

LINKS, HEALTH = "links.jsonl", "health.json"
EVERY_S = 1.0
"""From one line of `links.jsonl` to the next."""


class Reports:
    """Looks at a data plane."""

    def __init__(self, config: FabricConfig, network: Network, plane: DataPlane) -> None:
        self._config = config
        self._plane = plane
        engine = Path(config.engine)
        self._traffic_log = TrafficLog(engine / LINKS, network)
        self._health_path = engine / HEALTH
        self._snapshot: Snapshot | None = None
        """Of the last full second."""
        self._cpu_s = 0.0
        self._unwritten: str | None = None
        """Why the files are incomplete."""
        self._writing: Thread | None = None
        self._bug: Exception | None = None
        """What the writing thread came to grief with."""

    def write(self, t: float | None, *, is_last: bool = False) -> None:
        """A second is over. A full disk ends no run: the fabric says so, and carries on.

        While a slow disk still takes the second before, this one waits for the next.
        """
        if self._writing is not None and self._writing.is_alive() and not is_last:
            return
        self._finish()
        snapshot = self._snapshot = self._plane.counters()
        figures = self._plane.figures()
        self._writing = Thread(target=self._write, args=(t, snapshot, figures, is_last))
        self._writing.start()

    def _write(self, t: float | None, snapshot: Snapshot, figures: Figures, is_last: bool) -> None:
        try:
            _have_no_hurry()
            self._traffic_log.write(t, snapshot, self._config.time_scale, is_last=is_last)
            write_health(self._health_path, self._health(t, snapshot, figures))
        except OSError as problem:
            self._unwritten = problem.strerror or str(problem)
        except Exception as problem:
            self._bug = problem

    def _finish(self) -> None:
        """The files of the second before are complete. Raises what was wrong with writing them, but for the disk."""
        if self._writing is not None:
            self._writing.join()
        if self._bug is not None:
            raise self._bug

    def status(self, number: int, t: float | None, cut: set[int]) -> FabricStatus:
        figures = self._plane.figures()
        return FabricStatus(
            number=number,
            t=t,
            attached=_attached(figures),
            cut=tuple(sorted(cut)),
            packets=sum(port.packets_out for port in figures.ports),
            bytes=sum(port.bytes_out for port in figures.ports),
            dropped=self._dropped(figures),
            held_packets=figures.held_frames,
            held_bytes=figures.held_bytes,
            lateness=figures.delays.lateness,
            cpu_s=_cpu_s(),
            overloaded=self._why_overloaded(figures),
        )

    def close(self) -> None:
        """All files are complete; raises as `_finish` does."""
        self._finish()
        with suppress(OSError):
            self._traffic_log.close()

    def _health(self, t: float | None, snapshot: Snapshot, figures: Figures) -> Health:
        cpu_s, before_s = _cpu_s(), self._cpu_s
        self._cpu_s = cpu_s
        delays = figures.delays
        return Health(
            t=t,
            overloaded=self._why_overloaded(figures),
            lateness=delays.lateness,
            late_share=round(delays.late_share, 5),
            waits=delays.waits,
            wait_share=round(delays.wait_share, 5),
            device_waits=delays.device_waits,
            device_wait_mean_ms=round(delays.device_wait_mean_s * 1e3, 3),
            device_wait_share=round(delays.device_wait_share, 5),
            absent_s=round(delays.absent_s, 3),
            cpu_s=round(cpu_s, 3),
            cpu_share=round((cpu_s - before_s) / EVERY_S, 3),
            attached=_attached(figures),
            held_frames=figures.held_frames,
            held_bytes=figures.held_bytes,
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
                    unfit=dict(sorted(port.unfit.items())),
                    failed=dict(sorted(port.failed.items())),
                )
                for node, port in zip(self._config.nodes, figures.ports, strict=True)
            ],
            data_plane=self._config.data_plane,
        )

    def _dropped(self, figures: Figures) -> dict[str, int]:
        """By cause; for what links dropped as of the last full second."""
        found: Counter[str] = Counter()
        if self._snapshot is not None:
            links = self._snapshot.links
            found["queue"] = int(links.dropped_queue.sum())
            found["loss"] = int(links.dropped_loss.sum())
            found["down"] = int(links.dropped_down.sum())
            found["no_path"] = self._snapshot.no_path
        for port in figures.ports:
            found.update(port.unfit)
            found.update(port.failed)
        return {cause: count for cause, count in sorted(found.items()) if count}

    def _why_overloaded(self, figures: Figures) -> tuple[str, ...]:
        found = why_overloaded(figures, self._config.time_scale, time.monotonic())
        return found if self._unwritten is None else (*found, f"the engine's files are incomplete: {self._unwritten}")


def _have_no_hurry() -> None:
    """The calling thread gets no processor before those that carry packets; the whole process may be nicer still."""
    os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))


def _attached(figures: Figures) -> int:
    return sum(port.is_attached for port in figures.ports)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
