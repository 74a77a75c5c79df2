"""Snapshots: a node's model on disk, with what its algorithm and sharing remember, for its next life.

Takes vectors and states, touches the node's folder of snapshots. A model's file is complete or absent. The state is a
file beside it, written first. Without it, or if it is damaged, a snapshot holds the model alone, as those of earlier
versions do.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from testbed.journal import CannotWrite
from testbed.node.state import MOST_BYTES, State, UnusableState, from_bytes, to_bytes
from testbed.node.world import Vector
from testbed.run_files import read_plain

MODEL_ENDING, STATE_ENDING = ".f32", ".state"
_NAME = re.compile(r"round-([0-9]{6,})(\.f32|\.state)")


NO_PARTS: Mapping[str, State] = MappingProxyType({})


class Snapshot(NamedTuple):
    """A model, and the number of its rounds."""

    rounds: int
    vector: Vector
    state: Mapping[str, State] = NO_PARTS
    """States by part of the node (algorithm, sharing, random streams); empty if nothing was saved."""
    problem: str = ""
    """Why the state beside the model cannot be used."""


def save_snapshot(folder: Path, rounds: int, vector: Vector, state: Mapping[str, State] = NO_PARTS) -> None:
    """Writes the newest snapshot, then removes older ones.

    Raises CannotWrite if the disk is full or something else is in the place of a file, UnusableState for a state that
    cannot be saved.
    """
    model = vector.astype("<f4", copy=False).tobytes()
    files = [(MODEL_ENDING, model)]
    if any(state.values()):
        files.insert(0, (STATE_ENDING, to_bytes(state, model)))
    target = folder / f"round-{rounds:06}"
    written = {target.with_suffix(ending): data for ending, data in files}
    try:
        folder.mkdir(exist_ok=True)
        for path, data in written.items():
            _write(path, data)
        for _, older in _found(folder, MODEL_ENDING) + _found(folder, STATE_ENDING):
            if older not in written:
                older.unlink(missing_ok=True)
    except OSError as problem:
        name = problem.filename2 or problem.filename or target
        raise CannotWrite(f"cannot write {name}: {problem.strerror or problem}") from problem


def newest_snapshot(folder: Path, parameters: int) -> Snapshot | None:
    """The newest snapshot with a complete model of the right size; None if there is none."""
    for rounds, path in sorted(_found(folder, MODEL_ENDING), reverse=True):
        with contextlib.suppress(OSError):
            model = read_plain(path, folder, 4 * parameters)
            if len(model) == 4 * parameters:
                vector = np.frombuffer(model, dtype="<f4").astype(np.float32)
                return _with_state(Snapshot(rounds, vector), path.with_suffix(STATE_ENDING), model)
    return None


def _with_state(snapshot: Snapshot, path: Path, model: bytes) -> Snapshot:
    try:
        most = min(path.lstat().st_size, MOST_BYTES)  # a read of `most` bytes takes room for them at once
        return snapshot._replace(state=from_bytes(read_plain(path, path.parent, most), model))
    except FileNotFoundError:
        return snapshot
    except OSError as problem:
        return snapshot._replace(problem=f"{path.name}: {problem.strerror or problem}")
    except UnusableState as problem:
        return snapshot._replace(problem=f"{path.name}: {problem}")


def _write(target: Path, data: bytes) -> None:
    unfinished = target.with_name(f"{target.name}.part")
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("xb") as file:  # never into a pipe or through a link
            file.write(data)
        os.replace(unfinished, target)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _found(folder: Path, ending: str) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return [(int(match[1]), path) for match, path in matches if match and match[2] == ending]
