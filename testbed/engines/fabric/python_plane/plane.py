"""`PythonPlane`: one thread that reads devices, walks frames over the packet model and writes them when they are due.

Takes a `Setup`; touches the descriptors that it is given and the files of captures. `DataPlane` says what it does.

One turn: wait; read at most one frame from every device that has any, so that no node starves another (`intake`); write
what is due, also in between.
"""

from __future__ import annotations

import time
from pathlib import Path

from testbed.engines.fabric.data_plane import Figures, LostDevice, PortFigures, Setup
from testbed.engines.fabric.devices import make_fit
from testbed.engines.fabric.modelled_network import ModelledNetwork
from testbed.engines.fabric.python_plane.delay_counts import DelayCounts
from testbed.engines.fabric.python_plane.forwarder import Forwarder
from testbed.engines.fabric.python_plane.intake import Intake
from testbed.engines.fabric.python_plane.packet_file import PacketFile
from testbed.engines.fabric.python_plane.ports import Port, Ports
from testbed.engines.fabric.python_plane.waiting import Waiting
from testbed.engines.tun import VNET_HEADER_BYTES
from testbed.network.packets import Packets, Snapshot

_READ_AT_ONCE = 16
"""Frames, before what has become due meanwhile is written; the last look may read a few more."""


class PythonPlane(ModelledNetwork):
    """The data plane over `network/packets`: the reference for others, and what runs where there is no other."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._forwarder: Forwarder = Forwarder(
            setup.network,
            setup.addresses,
            seed=setup.seed,
            mtu=setup.mtu,
            in_order=setup.in_order,
            time_scale=setup.time_scale,
            most_held_bytes=setup.most_held_bytes,
            most_held_of_one_bytes=setup.most_held_of_one_bytes,
        )
        self._packets: Packets = self._forwarder.packets
        self._packets.cut(0.0, *setup.cut)
        self._ports = Ports(len(setup.addresses))
        self._intake = Intake(self._ports)
        self._waiting = Waiting(setup.wakeup)
        self._captures: dict[int, PacketFile] = {}
        """By port."""
        self._lost: list[LostDevice] = []
        self._began_s = time.monotonic()
        self._delays = DelayCounts(setup.limits, self._began_s)

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(self, until_s: float) -> list[LostDevice]:
        self._lost = []
        while True:
            count = 0
            due_s = min(self._packets.next_s() + self._began_s, until_s)
            for port in self._waiting.ready_ports(due_s, self._intake.holding):
                if count >= _READ_AT_ONCE:
                    self._write(until_s)
                    count = 0
                frames_before = port.frames_in
                self._read(port)
                count += port.frames_in - frames_before or 1  # one that was held costs as much
            self._write(until_s)
            self._delays.overslept(self._waiting.overslept_s)
            if self._waiting.is_woken or self._lost or time.monotonic() >= until_s:
                return self._lost

    def _read(self, port: Port) -> None:
        try:
            taken = self._intake.take(port, self._waiting.turn, self._waiting.arrived_s)
        except OSError as problem:
            self.detach(port.rank)
            self._lost.append(LostDevice(port.rank, f"its device cannot be read: {problem.strerror}"))
            return
        if taken is None:
            return
        data, since_s = taken
        began_s = self._began_s
        # Whatever is read in this turn was there when it began, however long the turn is.
        arrived_s = max(self._waiting.arrived_s - began_s, self._packets.now_s)
        wait = self._forwarder.offer(arrived_s, port.rank, data, since_s - began_s)
        if wait is not None:
            self._delays.read(*wait)
        if self._captures and (capture := self._captures.get(port.rank)):
            capture.add(data[VNET_HEADER_BYTES:])

    def _write(self, until_s: float) -> None:
        """What is due by now, and not after `until_s`: the network may change then."""
        clock, began_s = time.monotonic, self._began_s
        write, written = self._ports.write, self._delays.written
        to_s = max(min(clock(), until_s) - began_s, self._packets.now_s)
        for dest, due_s, data, packets, size_bytes, latency_s in self._forwarder.advance(to_s):
            if write(dest, data, packets, size_bytes):
                written(clock() - began_s - due_s, latency_s, packets)
            if self._captures and (capture := self._captures.get(dest)):
                capture.add(b"".join(data)[VNET_HEADER_BYTES:])

    # -- ports -----------------------------------------------------------------------------------------------------

    def attach(self, port: int, descriptor: int) -> bool:
        make_fit(descriptor)
        replaces = self.detach(port)
        self._waiting.add_port(self._ports.attach(port, descriptor))
        return replaces

    def detach(self, port: int) -> bool:
        there = self._ports.ports[port]
        if not there.is_attached:
            return False
        self._waiting.remove_port(there)
        self._ports.detach(port)
        self._intake.forget(port)
        return True

    # -- captures --------------------------------------------------------------------------------------------------

    def begin_capture(self, port: int, path: Path) -> None:
        self._captures[port] = PacketFile(path, self._setup)

    def end_capture(self, port: int) -> str | None:
        file = self._captures.pop(port)
        file.close()
        return file.ended

    # -- figures ---------------------------------------------------------------------------------------------------

    def counters(self) -> Snapshot:
        self._forwarder.release()
        for file in self._captures.values():
            file.flush()
        return self._packets.snapshot()

    def figures(self) -> Figures:
        each = zip(self._ports.ports, self._forwarder.unfit, strict=True)
        return Figures(
            ports=[
                PortFigures(
                    is_attached=port.is_attached,
                    frames_in=port.frames_in,
                    packets_out=port.packets_out,
                    bytes_out=port.bytes_out,
                    unfit=unfit,
                    failed=port.failed,
                )
                for port, unfit in each
            ],
            held_frames=self._forwarder.held,
            held_bytes=self._forwarder.held_bytes,
            delays=self._delays.figures(),
        )

    def restart_delays(self) -> None:
        self._delays = DelayCounts(self._setup.limits, time.monotonic())

    def close(self) -> None:
        for port in list(self._captures):
            self.end_capture(port)
        self._ports.close()
        self._waiting.close()
