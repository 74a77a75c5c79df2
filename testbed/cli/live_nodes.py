"""The living nodes of a run that goes on, as processes that have their networks.

Takes a run and its record, gives process ids; asks the Engine where the nodes are containers.
"""

from __future__ import annotations

from testbed.cli.run_target import is_of_containers
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.process_records import Recorded

_NODE = "node "


def pids_of_nodes(run: RunDirectory, record: Recorded, rank: int | None = None) -> dict[int, int]:
    """By rank: the nodes' own processes, or the first ones of their containers, or UNSEEN.

    Of one node only, if one is given.
    """
    if is_of_containers(run):
        from testbed.runtimes.docker import live

        return live.pids_of_nodes(run, rank)
    nodes = {
        int(each.name.removeprefix(_NODE)): each.pid
        for each in record.processes
        if each.name.startswith(_NODE) and is_alive(each)
    }
    return nodes if rank is None else {each: pid for each, pid in nodes.items() if each == rank}
