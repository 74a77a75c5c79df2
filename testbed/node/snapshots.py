"""Snapshots: a node's model on disk, for its next life and for whoever evaluates it.

Takes vectors, touches the node's folder of snapshots. A file is either whole or not there.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from testbed.journal import CannotWrite
from testbed.node.world import Vector

_NAME = re.compile(r"round-([0-9]{6,})\.f32")


class Snapshot(NamedTuple):
    """A model, and how many rounds it had done."""

    rounds: int
    vector: Vector


def save_snapshot(folder: Path, rounds: int, vector: Vector) -> None:
    """Write the newest; older ones are removed when it is there. Raises CannotWrite where there is no room."""
    target = folder / f"round-{rounds:06}.f32"
    unfinished = target.with_suffix(".part")
    try:
        folder.mkdir(exist_ok=True)
        unfinished.write_bytes(vector.astype("<f4", copy=False).tobytes())
        os.replace(unfinished, target)
    except OSError as problem:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise CannotWrite(f"cannot write {target}: {problem.strerror or problem}") from problem
    for _, older in _found(folder):
        if older != target:
            older.unlink(missing_ok=True)


def newest_snapshot(folder: Path, parameters: int) -> Snapshot | None:
    """The newest that is whole and of the right size; None when there is none."""
    for rounds, path in sorted(_found(folder), reverse=True):
        with contextlib.suppress(OSError):
            if path.stat().st_size == 4 * parameters:
                return Snapshot(rounds, np.fromfile(path, dtype="<f4").astype(np.float32, copy=False))
    return None


def _found(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    return [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
