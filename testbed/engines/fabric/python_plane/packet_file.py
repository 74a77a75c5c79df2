"""Packets as nodes see them, in pcap form. Takes frames, gives files; touches those files.

A super-segment is one packet here too, as it is for the node; checksums that the kernel left to its device are
unfinished.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

from testbed.engines.fabric.data_plane import Setup

_MAGIC_NANOSECONDS = 0xA1B23C4D
_LINKTYPE_RAW = 101
_LONGEST = 262_144
_RECORD = struct.Struct("=IIII")


class PacketFile:
    """One node's capture."""

    def __init__(self, path: Path, setup: Setup) -> None:
        self.path = path
        self._file = path.open("wb")
        self._file.write(struct.pack("=IHHiIII", _MAGIC_NANOSECONDS, 2, 4, 0, 0, _LONGEST, _LINKTYPE_RAW))
        self._setup = setup
        self._left = setup.most_captured_bytes
        self.ended: str | None = None
        """Why nothing is written any more, though it goes on."""

    def add(self, packet: bytes) -> None:
        """A packet that the node sends or receives now. A full disk ends the capture, and nothing else."""
        self._left -= len(packet) + _RECORD.size
        if self.ended is None and self._left < 0:
            self.ended = self._setup.capture_is_full
        if self.ended is not None:
            return
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        try:
            self._file.write(_RECORD.pack(seconds, nanoseconds, len(packet), len(packet)))
            self._file.write(packet)
        except OSError as problem:
            self._fails(problem)

    def flush(self) -> None:
        """What was added so far can be read."""
        try:
            self._file.flush()
        except OSError as problem:
            self._fails(problem)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as problem:
            self._fails(problem)

    def _fails(self, problem: OSError) -> None:
        self.ended = self.ended or problem.strerror or str(problem)
