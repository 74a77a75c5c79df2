"""Makes the folders that the containers of a run mount, before they start.

Takes a plan whose files are written, gives nothing; touches the run directory. The folders belong to the calling user:
Docker would create missing ones as root. Sockets may be on Docker volumes instead.
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
    """Makes all folders, with lock files for as many nodes to compute at once as there are `cores`."""
    lay_out_files(plan, run, inside)
    lay_out_sockets(plan, run, cores)


def lay_out_files(plan: RunPlan, run: RunDirectory, inside: ContainerPaths | None = None) -> None:
    """Makes all folders but those of sockets."""
    inside = inside or ContainerPaths()
    with _told():
        for folder in (run.path / "engine", fabric_folder(run)):
            folder.mkdir(parents=True, exist_ok=True)
        write_config(fabric_folder(run), config_of(plan, sockets=inside.sockets, engine=inside.run.path / "engine"))
        hosts_of_run(run).write_text(hosts_text(hosts_of(plan)))  # for programs of this machine in nodes' networks
        _make_other_names(plan, run)


def lay_out_sockets(plan: RunPlan, run: RunDirectory, cores: int) -> None:
    """Makes the folders of sockets in the run directory."""
    with _told():
        make_sockets(sockets_of(run), (node.rank for node in plan.nodes), cores)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise CouldNotStart(f"cannot write the run's folders: {problem.strerror or problem}") from None


def _make_other_names(plan: RunPlan, run: RunDirectory) -> None:
    """Links the nodes' folders by rank, since Compose and clusters cannot mount every name."""
    others = run.path / "runtime" / "nodes"
    others.mkdir(parents=True, exist_ok=True)
    for node in plan.nodes:
        (others / str(node.rank)).symlink_to(Path("..", "..", "nodes", node.name))


def remove_sockets(run: RunDirectory) -> None:
    """Removes the sockets. May be repeated."""
    clear_away(sockets_of(run))


def remove_within(folder: Path, but: Collection[Path] = ()) -> None:
    """Removes what is in a folder of sockets, except the files `but`. May be repeated.

    A learner may have changed the mode of its own folder, or may still write there.
    """
    with suppress(OSError):
        folder.chmod(0o700)
        for path in folder.iterdir():
            if any(path in each.parents for each in but):
                remove_within(path, but)
                with suppress(OSError):  # a kept file is in it
                    path.rmdir()
            elif path not in but:
                clear_away(path)


def make_sockets(sockets: Path, ranks: Iterable[int], cores: int) -> None:
    """Makes private folders of sockets, and a lock file for each of the `cores`. Mounted folders exist already."""
    sockets.mkdir(exist_ok=True)
    slots_of(sockets).mkdir(exist_ok=True)
    make_slots(slots_of(sockets), cores)
    private = [sockets, *(folder_of_node(sockets, rank) for rank in ranks)]
    for folder in private:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)


def make_mounted(sockets: Path, user: User, cores: int) -> None:
    """Makes the folders on mounted volumes, and gives them to the user. The nodes' volumes are named by rank."""
    make_sockets(sockets, [int(each.name) for each in nodes_of(sockets).iterdir()], cores)
    for folder, _, files in os.walk(sockets, topdown=False):  # the outermost last: it can be entered until then
        for name in files:
            os.chown(os.path.join(folder, name), user.uid, user.gid)
        os.chown(folder, user.uid, user.gid)
