"""Lets at most so many processes of a host train at once as it has cores.

Takes a folder that all of them share, gives slots; locks files there. The kernel lets go of a lock when its holder
dies, however that happens. Whoever finds no slot free waits for one that is always the same for it, and there for its
turn: first come, first served, as far as the kernel keeps to that.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCKS = Path("/proc/locks")


def holders(folder: Path) -> set[int]:
    """The processes that hold a slot now, as the kernel knows."""
    slots = {(each.st_dev, each.st_ino) for each in (path.stat() for path in folder.glob("slot-*"))}
    found = set()
    for text in _LOCKS.read_text().splitlines():
        match text.split():
            case [_, "FLOCK", _, _, pid, file, *_]:
                major, minor, number = file.split(":")
                if (os.makedev(int(major, 16), int(minor, 16)), int(number)) in slots:
                    found.add(int(pid))
    return found


class ComputeSlots:
    """One process's way to the slots; opened by that very process, because a lock belongs to who opened the file."""

    def __init__(self, folder: Path, count: int, favourite: int) -> None:
        """All processes say the same count; `favourite` spreads those that have to wait: a rank will do."""
        if count < 1:
            raise ValueError("nobody can train without a slot")
        self._files: list[int] = []
        self._favourite = favourite % count
        try:
            for number in range(count):
                path = folder / f"slot-{number}"
                self._files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError:
            self.close()
            raise

    @contextmanager
    def one(self) -> Iterator[None]:
        """Holds a slot; waits for it. One thread at a time."""
        file = self._free()
        if file is None:
            file = self._files[self._favourite]
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    @contextmanager
    def one_if_free(self) -> Iterator[bool]:
        """Holds a slot, if one is free; says whether. Who only asks takes nobody's turn."""
        file = self._free()
        try:
            yield file is not None
        finally:
            if file is not None:
                fcntl.flock(file, fcntl.LOCK_UN)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def _free(self) -> int | None:
        for file in (*self._files[self._favourite :], *self._files[: self._favourite]):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return file
        return None
