"""The folders that the containers of a run mount, made before any of them starts.

Takes a plan whose files are written, gives nothing; touches the run directory. All of it belongs to whoever calls this:
Docker would make what is missing, and root would own it. Sockets may lie elsewhere, on volumes that are an Engine's.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.engines.fabric.config import config_of, write_config
from testbed.engines.privileges import User
from testbed.errors import CouldNotStart
from testbed.node.compute_slots import make_slots
from testbed.plan.hosts import hosts_of, hosts_text
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import (
    ContainerPaths,
    fabric_folder,
    folder_of_node,
    nodes_of,
    slots_of,
    sockets_of,
)
from testbed.runtimes.tracking.process_records import hosts_of_run
from testbed.runtimes.tracking.removal import clear_away


def lay_out(plan: RunPlan, run: RunDirectory, cores: int, inside: ContainerPaths | None = None) -> None:
    """As many nodes as there are `cores` may compute at once."""
    lay_out_files(plan, run, inside)
    lay_out_sockets(plan, run, cores)


def lay_out_files(plan: RunPlan, run: RunDirectory, inside: ContainerPaths | None = None) -> None:
    """All but the sockets."""
    inside = inside or ContainerPaths()
    with _told():
        for folder in (run.path / "engine", fabric_folder(run)):
            folder.mkdir(parents=True, exist_ok=True)
        write_config(fabric_folder(run), config_of(plan, sockets=inside.sockets, engine=inside.run.path / "engine"))
        hosts_of_run(run).write_text(hosts_text(hosts_of(plan)))  # for programs of this machine in nodes' networks
        _make_other_names(plan, run)


def lay_out_sockets(plan: RunPlan, run: RunDirectory, cores: int) -> None:
    """In the run directory."""
    with _told():
        make_sockets(sockets_of(run), (node.rank for node in plan.nodes), cores)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise CouldNotStart(f"cannot write the run's folders: {problem.strerror or problem}") from None


def _make_other_names(plan: RunPlan, run: RunDirectory) -> None:
    """Not everybody can mount a folder with any name: each has one by its rank, too."""
    others = run.path / "runtime" / "nodes"
    others.mkdir(parents=True, exist_ok=True)
    for node in plan.nodes:
        (others / str(node.rank)).symlink_to(Path("..", "..", "nodes", node.name))


def remove_sockets(run: RunDirectory) -> None:
    """Nothing that is no result stays; may be repeated."""
    clear_away(sockets_of(run))


def remove_within(folder: Path, but: Collection[Path] = ()) -> None:
    """What a folder of sockets has in it, but not itself, nor those files where there are any; may be repeated.

    A learner may have closed its own folder, or may be at it still.
    """
    with suppress(OSError):
        folder.chmod(0o700)
        for path in folder.iterdir():
            if any(path in each.parents for each in but):
                remove_within(path, but)
                with suppress(OSError):  # there is one
                    path.rmdir()
            elif path not in but:
                clear_away(path)


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
