"""Compute slots: at most as many processes of a host train at once as it has cores.

Takes a folder that all processes share, gives slots; locks files there. The kernel releases a lock when its holder
dies. There are as many queues as slots. In each queue the kernel keeps the order, first come, first served, and the
first process looks for a free slot whenever one has been given up. So no slot stays free while a process waits for one.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCKS, _MOUNTS, _DESCRIPTORS = Path("/proc/locks"), Path("/proc/self/mountinfo"), Path("/proc/self/fdinfo")
_SLOT, _QUEUE, _BELL = "slot-", "queue-", "bell"
"""The last is a pipe into which the holder of a slot writes a byte when it gives the slot up and others wait."""
_LOOK_MS = 5
"""Interval of looking for a free slot without that: its holder has died, or another process has read the byte."""
_ASIDE_S = 0.01
"""Longer than the time that a process may run between two attempts to pause it."""


def holders(folder: Path) -> set[int]:
    """The processes that others wait for, by the kernel's list of locks: they hold a slot, or are first in a queue."""
    device = _device(folder)
    files = {(device, path.stat().st_ino) for kind in (_SLOT, _QUEUE) for path in folder.glob(f"{kind}*")}
    found = set()
    for text in _LOCKS.read_text().splitlines():
        match text.split():
            case [_, "FLOCK", _, _, pid, file, *_]:
                major, minor, number = file.split(":")
                if (os.makedev(int(major, 16), int(minor, 16)), int(number)) in files:
                    found.add(int(pid))
    return found


def _device(folder: Path) -> int:
    """The device number in the kernel's list of locks; `stat` gives another one on btrfs subvolumes and the like."""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        told = dict(line.split(":", 1) for line in (_DESCRIPTORS / str(descriptor)).read_text().splitlines())
    finally:
        os.close(descriptor)
    for mount in _MOUNTS.read_text().splitlines():
        number, _, device, *_ = mount.split()
        if number == told["mnt_id"].strip():
            major, minor = map(int, device.split(":"))
            return os.makedev(major, minor)
    return folder.stat().st_dev  # it is mounted where this process cannot see it


def make_slots(folder: Path, count: int) -> None:
    """Creates all files, for processes that may only read there."""
    for kind in (_SLOT, _QUEUE):
        for number in range(count):
            (folder / f"{kind}{number}").touch(0o600)
    os.mkfifo(folder / _BELL, 0o600)


def slots_in(folder: Path) -> int:
    """The number of slots in a folder."""
    return len(list(folder.glob(f"{_SLOT}*")))


class ComputeSlots:
    """The slots as one process uses them. Each process opens its own, because a lock belongs to the open file."""

    def __init__(self, folder: Path, count: int, favourite: int) -> None:
        """All processes pass the same count. `favourite` (such as a rank) spreads waiting processes over the queues."""
        if count < 1:
            raise ValueError("no node can train without a slot")
        self._slots: list[int] = []
        self._queues: list[int] = []
        self._favourite = favourite % count
        self._steps_aside = False
        self._bell = -1
        self._rings = select.poll()
        try:
            for kind, files in ((_SLOT, self._slots), (_QUEUE, self._queues)):
                for number in range(count):
                    path = folder / f"{kind}{number}"
                    files.append(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with suppress(FileExistsError):
                os.mkfifo(folder / _BELL, 0o600)
            self._bell = os.open(folder / _BELL, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._rings.register(self._bell, select.POLLIN)
        except OSError:
            self.close()
            raise

    @property
    def count(self) -> int:
        """The number of slots."""
        return len(self._slots)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a slot and holds it. One thread at a time."""
        slot = self._next_free()
        try:
            yield
        finally:
            self._give_up(slot)

    @contextmanager
    def one_if_free(self) -> Iterator[bool]:
        """Holds a slot if one is free and no process waits for it; gives whether it does."""
        slot = None if self._is_awaited() else self._free()
        try:
            yield slot is not None
        finally:
            if slot is not None:
                self._give_up(slot)

    def step_aside(self) -> None:
        """Gives up the first place in a queue: this process is about to be stopped, and others would wait for it.

        Called by the handler of the signal that continues the process after an attempt to stop it.
        """
        self._steps_aside = True

    def close(self) -> None:
        for files in (self._slots, self._queues):
            for file in files:
                os.close(file)
            files.clear()
        if self._bell >= 0:
            os.close(self._bell)
            self._bell = -1

    def _give_up(self, slot: int) -> None:
        fcntl.flock(slot, fcntl.LOCK_UN)
        if self._is_awaited():
            with suppress(BlockingIOError):  # then there are bytes enough
                os.write(self._bell, b"!")

    def _next_free(self) -> int:
        """Waits for this process's turn in its queue, and then for the first slot that becomes free."""
        queue = self._queues[self._favourite]
        while True:
            fcntl.flock(queue, fcntl.LOCK_EX)
            self._steps_aside = False
            try:
                while not self._steps_aside:
                    if (slot := self._free()) is not None:
                        return slot
                    if self._rings.poll(_LOOK_MS):
                        with suppress(BlockingIOError):
                            os.read(self._bell, 1)
            finally:
                fcntl.flock(queue, fcntl.LOCK_UN)
            time.sleep(_ASIDE_S)

    def _is_awaited(self) -> bool:
        for queue in self._queues:
            try:
                fcntl.flock(queue, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(queue, fcntl.LOCK_UN)
        return False

    def _free(self) -> int | None:
        for slot in (*self._slots[self._favourite :], *self._slots[: self._favourite]):
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return slot
        return None
