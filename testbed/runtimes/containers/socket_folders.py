"""The folder of a run's sockets: made, in the run directory or on volumes that an Engine has put together to one.

Takes the folder and ranks, gives nothing; touches what is in it. A volume is root's when it is new, and the run is
not: whoever makes folders there gives them away, which is all that a container needs a capability for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from testbed.engines.privileges import User
from testbed.node.compute_slots import make_slots
from testbed.runtimes.containers.inside import folder_of_node, nodes_of, slots_of


def make_sockets(sockets: Path, ranks: Iterable[int], cores: int) -> None:
    """Private folders, for as many nodes to compute at once as there are `cores`; what is mounted is there already."""
    sockets.mkdir(exist_ok=True)
    slots_of(sockets).mkdir(exist_ok=True)
    make_slots(slots_of(sockets), cores)
    private = [sockets, *(folder_of_node(sockets, rank) for rank in ranks)]
    for folder in private:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)


def make_mounted(sockets: Path, user: User, cores: int) -> None:
    """Of volumes that are mounted there, the nodes' by their ranks; all of it is the user's afterwards."""
    make_sockets(sockets, [int(each.name) for each in nodes_of(sockets).iterdir()], cores)
    for folder, _, files in os.walk(sockets, topdown=False):  # the outermost last: it can be entered until then
        for name in files:
            os.chown(os.path.join(folder, name), user.uid, user.gid)
        os.chown(folder, user.uid, user.gid)
