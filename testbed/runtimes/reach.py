"""How commands reach a run that goes on, wherever its processes are.

Takes a run and its record, gives a `Door`, or whether somebody leads it; looks at processes, asks an Engine where the
record says so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from testbed.doors import Door
from testbed.engines.fabric.sockets import control_socket
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.process_records import Recorded, commands_socket

UNSEEN = 0
"""In place of the id of a process that is on another machine, or that nobody here can look at."""


def commands_door(run: RunDirectory, record: Recorded) -> Door:
    """Where its control is reached."""
    return _door(run, record, commands_socket)


def fabric_door(run: RunDirectory, record: Recorded) -> Door:
    """Where its fabric is; a path may lead to none."""
    return _door(run, record, control_socket)


def is_led(run: RunDirectory, record: Recorded) -> bool:
    """Whether what leads it is there; raises what an Engine says that had to be asked."""
    if any(each.name == "control" and is_alive(each) for each in record.processes):
        return True
    if not record.unseen:
        return False
    from testbed.runtimes.docker import live

    return live.is_led(run)


def _door(run: RunDirectory, record: Recorded, place: Callable[[Path], Path]) -> Door:
    if not record.on_volumes:
        return place(Path(record.sockets))
    from testbed.runtimes.docker.relayed import relayed

    return relayed(run, place)
