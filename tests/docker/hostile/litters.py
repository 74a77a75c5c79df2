"""Leaves misleading files in its folder, which must not be trusted."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.node.node import Node
from testbed.node.world import Vector
from testbed.protocol.nodes import SLOTS
from testbed.runtimes.processes.model_files import ModelFiles

FOLDER = Path("/testbed/node")
NAMES = (
    *("-rf", "$(touch pwned)", "a\nb", "\x1b]0;pwned\x07", "..\\..\\x", "…"),
    *("plan.json ", "summary.json", "events.jsonl"),
)
_PRINTED = 5 << 20
_SPARSE = 1 << 40
_writers: list[int] = []
"""Of every round: who keeps a pipe open."""


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:
    if round_ == 0:
        setattr(ModelFiles, "put", leaves_something_else)  # noqa: B010 - or mypy would know better
        sys.stdout.write("\x1b]0;pwned\x07" + "x" * _PRINTED + "\n")
        sys.stdout.flush()
        for name in NAMES:
            (FOLDER / name).write_text('{"health": "valid"}')
    if round_ + 1 == node.plan.experiment.stop.rounds:
        for place in ("journal.jsonl", "log.txt"):  # its own stay open
            (FOLDER / place).unlink()
            (FOLDER / place).symlink_to(str(told["secret"]))
        (FOLDER / "up").symlink_to("/")
        (FOLDER / "snapshots").symlink_to("..")


def leaves_something_else(files: ModelFiles, rank: int, vector: Vector, *, is_last: bool) -> int:  # noqa: ARG001
    """In place of a model, every round something different."""
    shelf = FOLDER / "left-models"
    number = len(_writers)
    slot = number % SLOTS
    if number >= SLOTS:
        return slot
    shelf.mkdir(exist_ok=True)
    place = shelf / f"{slot}.f32"
    if number == 0:
        place.symlink_to("/testbed/run/plan.json")
        _writers.append(-1)
    elif number == 1:
        os.mkfifo(place)
        _writers.append(os.open(place, os.O_RDWR))
    elif number == 2:
        place.mkdir()
        _writers.append(-1)
    elif number == 3:
        with place.open("wb") as file:
            file.truncate(_SPARSE)
        _writers.append(-1)
    else:
        for each in shelf.iterdir():
            each.rename(FOLDER / f"was-{each.name}")
        shelf.rmdir()
        shelf.symlink_to("/testbed/run/nodes/good.0/left-models")
        _writers.append(-1)
    return slot
