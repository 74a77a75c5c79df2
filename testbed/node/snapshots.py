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

    Raises CannotWrite if the disk is full, UnusableState for a state that cannot be saved.
    """
    model = vector.astype("<f4", copy=False).tobytes()
    files = [(MODEL_ENDING, model)]
    if any(state.values()):
        files.insert(0, (STATE_ENDING, to_bytes(state, model)))
    target = folder / f"round-{rounds:06}"
    for ending, data in files:
        _write(target.with_suffix(ending), data)
    written = {target.with_suffix(ending) for ending, _ in files}
    for _, older in _found(folder, MODEL_ENDING) + _found(folder, STATE_ENDING):
        if older not in written:
            older.unlink(missing_ok=True)


def newest_snapshot(folder: Path, parameters: int) -> Snapshot | None:
    """The newest snapshot with a complete model of the right size; None if there is none."""
    for rounds, path in sorted(_found(folder, MODEL_ENDING), reverse=True):
        with contextlib.suppress(OSError):
            if path.stat().st_size == 4 * parameters:
                model = path.read_bytes()
                vector = np.frombuffer(model, dtype="<f4").astype(np.float32)
                return _with_state(Snapshot(rounds, vector), path.with_suffix(STATE_ENDING), model)
    return None


def _with_state(snapshot: Snapshot, path: Path, model: bytes) -> Snapshot:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UnusableState("it is too large")
        return snapshot._replace(state=from_bytes(path.read_bytes(), model))
    except FileNotFoundError:
        return snapshot
    except (OSError, UnusableState) as problem:
        return snapshot._replace(problem=f"{path.name}: {problem}")


def _write(target: Path, data: bytes) -> None:
    unfinished = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(exist_ok=True)
        unfinished.write_bytes(data)
        os.replace(unfinished, target)
    except OSError as problem:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise CannotWrite(f"cannot write {target}: {problem.strerror or problem}") from problem


def _found(folder: Path, ending: str) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return [(int(match[1]), path) for match, path in matches if match and match[2] == ending]
