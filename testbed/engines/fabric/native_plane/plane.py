"""`NativePlane`: the data plane in C. `DataPlane` says what it does, `core/plane.c` how.

Takes a `Setup`; touches the descriptors that it is given and the files of captures.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np

from testbed.engines.fabric import delays
from testbed.engines.fabric.data_plane import WRITE, Figures, LostDevice, PortFigures, Setup
from testbed.engines.fabric.devices import close_aside, close_together, make_fit
from testbed.engines.fabric.histogram import told
from testbed.engines.fabric.modelled_network import ModelledNetwork
from testbed.engines.fabric.native_plane import abi
from testbed.engines.fabric.native_plane.forwarder import CoreForwarder, ForwarderArrays, named_unfit
from testbed.engines.fabric.native_plane.library import core
from testbed.engines.fabric.native_plane.packets import Model
from testbed.engines.tun import NotATun
from testbed.network.packets import Snapshot
from testbed.protocol.fabric import Lateness


class NativePlane(ModelledNetwork):
    """The data plane over the compiled core. While it carries packets, other threads of Python's run."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._core = core()
        self._arrays = ForwarderArrays(
            setup.network,
            setup.addresses,
            seed=setup.seed,
            mtu=setup.mtu,
            in_order=setup.in_order,
            time_scale=setup.time_scale,
            most_held_bytes=setup.most_held_bytes,
            most_held_of_one_bytes=setup.most_held_of_one_bytes,
        )
        self._pointer: int = self._core.core_plane_new(self._arrays.setup, setup.wakeup, abi.DelayLimits(*setup.limits))
        self._forwarder: CoreForwarder = CoreForwarder(self._core.core_plane_forwarder(self._pointer), self._arrays)
        self._packets: Model = self._forwarder.packets
        self._began_s: float = self._core.core_plane_began(self._pointer)
        self._count = len(setup.addresses)
        self._lost = (abi.Lost * self._count)()
        self._captures: dict[int, int] = {}
        """Descriptors of their files, by port."""
        self._packets.cut(0.0, *setup.cut)

    def run(self, until_s: float) -> list[LostDevice]:
        count = self._core.core_plane_run(self._pointer, until_s, self._lost)
        found = []
        for lost in self._lost[:count]:
            close_aside(lost.descriptor)
            found.append(LostDevice(lost.rank, f"its device cannot be read: {os.strerror(lost.error)}"))
        return found

    # -- ports -----------------------------------------------------------------------------------------------------

    def attach(self, port: int, descriptor: int) -> bool:
        make_fit(descriptor)
        replaces = self.detach(port)
        error = self._core.core_plane_attach(self._pointer, port, descriptor)
        if error:
            os.close(descriptor)
            raise NotATun(f"its device cannot be watched: {os.strerror(-error)}")
        return replaces

    def detach(self, port: int) -> bool:
        descriptor = self._core.core_plane_detach(self._pointer, port)
        if descriptor < 0:
            return False
        close_aside(descriptor)
        return True

    # -- captures --------------------------------------------------------------------------------------------------

    def begin_capture(self, port: int, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._captures[port] = descriptor
        self._core.core_plane_begin_capture(self._pointer, port, descriptor, self._setup.most_captured_bytes)

    def end_capture(self, port: int) -> str | None:
        descriptor = self._captures.pop(port)
        why = self._core.core_plane_end_capture(self._pointer, port)
        os.close(descriptor)
        if why == abi.CAPTURE_FULL:
            return self._setup.capture_is_full
        return os.strerror(why) if why else None

    # -- figures ---------------------------------------------------------------------------------------------------

    def counters(self) -> Snapshot:
        self._packets.release()
        self._core.core_plane_flush_captures(self._pointer)
        return self._packets.snapshot()

    def figures(self) -> Figures:
        totals = self._packets.totals()
        rows = np.empty(self._count, dtype=abi.PORT_FIGURES)
        self._core.core_plane_ports(self._pointer, abi.address(rows))
        return Figures(
            ports=[_port(*row) for row in zip(*(rows[name].tolist() for name in rows.dtype.names or ()), strict=True)],
            held_frames=totals.held_segments,
            held_bytes=totals.held_bytes,
            delays=self._delays(),
        )

    def _delays(self) -> delays.DelayFigures:
        found = self._core.core_plane_delays(self._pointer).contents
        waits = _told(found.waits)
        return delays.DelayFigures(
            began_s=found.began_s,
            packets=found.packets,
            late=found.late,
            far=found.far,
            frames=waits.count,
            waited=found.waited,
            delayed=found.delayed,
            added_s=found.added_s,
            latency_s=found.latency_s,
            absent_s=found.absent_s,
            longest_absence_s=found.longest_absence_s,
            lateness=_told(found.lateness),
            waits=waits,
            device_waits=_told(found.device_waits),
        )

    def restart_delays(self) -> None:
        self._core.core_plane_restart_delays(self._pointer)

    def close(self) -> None:
        if not self._pointer:
            return
        for port in list(self._captures):
            self.end_capture(port)
        descriptors = (self._core.core_plane_detach(self._pointer, port) for port in range(self._count))
        close_together([descriptor for descriptor in descriptors if descriptor >= 0])
        self._core.core_plane_free(self._pointer)
        self._pointer = 0


def _port(
    is_attached: int,
    frames_in: int,
    packets_out: int,
    bytes_out: int,
    absent: int,
    unfit: list[int],
    failures: list[list[int]],
) -> PortFigures:
    failed = {_named(kind, error): count for kind, error, count in failures if count}
    if absent:
        failed["absent"] = absent
    return PortFigures(bool(is_attached), frames_in, packets_out, bytes_out, named_unfit(unfit), failed)


def _named(kind: int, error: int) -> str:
    name = errno.errorcode.get(error, "?")
    return f"read {name}" if kind == abi.READ else WRITE + name


def _told(counted: abi.Histogram) -> Lateness:
    return told(np.ctypeslib.as_array(counted.counts), counted.max_s)
