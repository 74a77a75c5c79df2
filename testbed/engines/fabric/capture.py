"""Packets as nodes see them, in pcap form. Takes frames, gives files; touches those files.

A super-segment is one packet here too, as it is for the node; checksums that the kernel left to its device are
unfinished.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from pathlib import Path

from testbed.errors import UsageProblem

_MAGIC_NANOSECONDS = 0xA1B23C4D
_LINKTYPE_RAW = 101
_LONGEST = 262_144
_RECORD = struct.Struct("=IIII")
MOST_BYTES = 4 << 30
"""A forgotten capture must not fill the disk."""


class PacketFile:
    """One node's capture."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._file.write(struct.pack("=IHHiIII", _MAGIC_NANOSECONDS, 2, 4, 0, 0, _LONGEST, _LINKTYPE_RAW))
        self._left = MOST_BYTES
        self.ended: str | None = None
        """Why nothing is written any more, though it goes on."""

    def add(self, packet: bytes) -> None:
        """A packet that the node sends or receives now. A full disk ends the capture, and nothing else."""
        self._left -= len(packet) + _RECORD.size
        if self.ended is None and self._left < 0:
            self.ended = f"it has {MOST_BYTES} bytes, the most that one may have"
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

    def is_at(self, path: Path) -> bool:
        """Whether it is that very file, by whatever name."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._file.fileno()), path.stat())
        return False

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as problem:
            self._fails(problem)

    def _fails(self, problem: OSError) -> None:
        self.ended = self.ended or problem.strerror or str(problem)


class Captures:
    """Those that go on: of each node at most one, which ends at the latest when whoever has asked for it is gone."""

    def __init__(self) -> None:
        self.files: dict[int, PacketFile] = {}
        """By rank."""
        self._askers: dict[int, int] = {}

    def begin(self, rank: int, path: Path, asker: int) -> None:
        """Raises UsageProblem where the file cannot be written, or one of the two is in use already."""
        before = self.files.get(rank)
        if before is not None:
            raise UsageProblem("the node's packets are being captured already", f"into {before.path}; one at a time")
        if any(each.is_at(path) for each in self.files.values()):
            raise UsageProblem(f"another node's packets are being captured into {path}", "take another file")
        try:
            self.files[rank] = PacketFile(path)
        except OSError as problem:
            raise UsageProblem(f"cannot write {path}: {problem.strerror}") from None
        self._askers[rank] = asker

    def end(self, rank: int, asker: int) -> None:
        """Raises UsageProblem for somebody else's, and, when it is closed, for one that does not have all packets."""
        if self._askers.get(rank, asker) != asker:
            raise UsageProblem("somebody else captures the node's packets")
        file = self.files.get(rank)
        self._close(rank)
        if file is not None and file.ended is not None:
            raise UsageProblem(f"{file.path} does not have all packets: {file.ended}", "those before are in it")

    def forget(self, asker: int) -> None:
        """Whoever it was is gone."""
        for rank in [rank for rank, each in self._askers.items() if each == asker]:
            self._close(rank)

    def flush(self) -> None:
        for each in self.files.values():
            each.flush()

    def close(self) -> None:
        for rank in list(self.files):
            self._close(rank)

    def _close(self, rank: int) -> None:
        if (file := self.files.pop(rank, None)) is not None:
            file.close()
        self._askers.pop(rank, None)
