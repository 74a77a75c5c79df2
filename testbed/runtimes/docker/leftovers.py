"""What runs have left on a Docker Engine: found by labels, ended, removed.

Takes a run directory, gives what was done; asks the Docker Engine, signals the command that leads a run, touches the
run's sockets and records. Containers are never looked up by name. A run whose directory was removed is still found by
its containers.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import CouldNotStart, PreflightRefused, TestbedError
from testbed.image.engine_client import connected
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import outcome_file, sockets_of
from testbed.runtimes.containers.layout import remove_sockets
from testbed.runtimes.docker.container_set import of_run, present, remove
from testbed.runtimes.docker.containers import CONTROL, FOLDER_LABEL, NODE_LABEL, PART_LABEL, RUN_LABEL
from testbed.runtimes.tracking.leftovers import Removed, is_alive, is_of, tell
from testbed.runtimes.tracking.ownership import end_marked
from testbed.runtimes.tracking.process_records import read_record, record_of

if TYPE_CHECKING:
    from docker import DockerClient

_GONE, _IN_USE = 404, 409
DEPLOY = "deploy"
"""The name, in the record of a run's processes, of the command that leads it."""
_ALIVE = ("running", "paused", "restarting")
_GOODBYE_S = 30.0
"""How long a run may take to end in good order."""
_SAY_AGAIN_S = 1.0
"""Repeats SIGTERM: a container's first process ignores it until it has installed its handler."""
_LOOK_S = 0.2
_QUICK_S = 3.0
"""Timeout of a search for leftovers, of which there may be none."""
_REMOVING_S = 10.0
"""How long removal may make no progress. A volume stays in use for a moment after its container is removed."""
_QUIET_S = 1.0
"""A killed command's last containers may be created after all others are removed."""


class NotRemoved(CouldNotStart):
    """Containers or volumes of a run cannot be removed."""


class StartedByCompose(PreflightRefused):
    """The run goes on, and Compose has started its containers."""


def destroy(run: RunDirectory) -> Removed:
    """Removes everything of the run but its results. A run that goes on ends in good order first. May be repeated.

    Raises PreflightRefused if no Docker Engine answers and something may be left on it; StartedByCompose, before
    anything is touched, for a run of Compose that goes on.
    """
    had_files = any(each.exists() for each in (sockets_of(run), record_of(run), outcome_file(run)))
    led = _end_command(run)
    try:
        with connected() as engine:
            _refuse_if_of_compose(engine, run.path.resolve())
            found, volumes = present(engine, run.path.resolve()), volumes_of(engine, run.path.resolve())
            there = [each for each in found if each.state in _ALIVE]
            _end(engine, [each.id for each in there if each.labels.get(PART_LABEL) == CONTROL])
            remove_all_of(engine, run.path.resolve(), _QUIET_S if had_files else 0.0)
    except PreflightRefused as problem:
        if had_files or isinstance(problem, StartedByCompose):
            raise
        return Removed(led)
    if (record := read_record(run)) is not None:
        end_marked(record.mark, (os.geteuid(),))
    remove_sockets(run)
    for unfinished in (*run.path.glob(".*.tmp"), *run.path.glob("engine/.*.tmp"), outcome_file(run), record_of(run)):
        unfinished.unlink(missing_ok=True)
    return Removed((*led, *(_word(each.labels) for each in there)), files=bool(found or volumes) or had_files)


def _refuse_if_of_compose(engine: DockerClient, folder: Path) -> None:
    """Raises StartedByCompose. Such containers have the run's label but no folder label; their mounts tell the run."""
    found = engine.api.containers(all=True, filters={"label": f"{RUN_LABEL}={folder.name}"})
    for each in found:
        is_composed = FOLDER_LABEL not in each["Labels"] and each["State"] in _ALIVE
        if is_composed and any(_is_of(folder, mount.get("Source")) for mount in each["Mounts"]):
            raise StartedByCompose(
                f"the run {folder.name} goes on: its containers were started by Compose",
                "`docker compose down`, where its docker-compose.yml is, ends them",
            )


def _is_of(folder: Path, source: str | None) -> bool:
    """Whether the mount's source is of the run, or is the results folder in which the container creates the run."""
    if not source:  # a mount without a source
        return False
    resolved = Path(source).resolve()
    return resolved.is_relative_to(folder) or resolved == folder.parent


def is_known(run: RunDirectory) -> bool:
    """Whether a Docker Engine answers, and has containers or volumes of the run."""
    return run.path.resolve() in _folders()


def strays() -> list[RunDirectory]:
    """Runs with containers or volumes, whose directory or plan was removed."""
    return [RunDirectory(folder) for folder in sorted(_folders()) if _is_gone(RunDirectory(folder).plan)]


def refuse_if_there(engine: DockerClient, folder: Path) -> None:
    """Raises CouldNotStart if the Docker Engine has containers or volumes of a run in this folder."""
    containers = of_run(engine, folder)
    if containers or volumes_of(engine, folder):
        raise CouldNotStart(
            f"there are {'containers' if containers else 'volumes'} of a run in {folder} already",
            f"`testbed destroy {folder}` removes them; or give another --run-id",
        )


def _folders() -> set[Path]:
    """The folders of all runs with containers or volumes; none if no Docker Engine answers soon."""
    with suppress(TestbedError), connected(_QUICK_S) as engine:
        found = engine.api.containers(all=True, filters={"label": FOLDER_LABEL})
        return {*(Path(each["Labels"][FOLDER_LABEL]) for each in found), *folders_with_volumes(engine)}
    return set()


def _is_gone(path: Path) -> bool:
    """Whether there is certainly no such file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _end_command(run: RunDirectory) -> tuple[str, ...]:
    """Tells the command that leads the run to end it and remove its containers; gives its name if it was running."""
    record = read_record(run)
    if record is None:
        return ()
    led = [each for each in record.processes if each.name == DEPLOY and is_of(each, run, record.mark)]
    until_s = time.monotonic() + _GOODBYE_S
    for each in led:
        tell(each, signal.SIGTERM, run, record.mark)
        while is_alive(each) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
    return tuple(each.name for each in led)


def _end(engine: DockerClient, ids: list[str]) -> None:
    """Tells control to end the run, and waits until it has, or the timeout."""
    from docker.errors import APIError

    until_s, say_s = time.monotonic() + _GOODBYE_S, 0.0
    while _running(engine, ids) and time.monotonic() < until_s:
        if time.monotonic() >= say_s:
            say_s = time.monotonic() + _SAY_AGAIN_S
            for each in ids:
                with suppress(APIError):  # it has just ended
                    engine.api.kill(each, signal="SIGTERM")
        time.sleep(_LOOK_S)


def _running(engine: DockerClient, ids: Iterable[str]) -> bool:
    """One request an id: a request without any id would list all containers."""
    return any(engine.api.containers(quiet=True, filters={"id": each}) for each in ids)


def remove_all_of(engine: DockerClient, folder: Path, quiet_s: float = 0.0) -> None:
    """Removes all containers and volumes of the run until none has appeared for `quiet_s`. May be repeated.

    Goes on as long as it makes progress; raises NotRemoved when it makes none.
    """
    quiet_from_s = time.monotonic()
    stuck_from_s: float | None = None
    before: set[str] | None = None
    while True:
        ids, volumes = of_run(engine, folder), volumes_of(engine, folder)
        there, now_s = {*ids, *volumes}, time.monotonic()
        if not there and now_s - quiet_from_s >= quiet_s:
            return
        if not there or before is None or not before <= there:
            stuck_from_s = None
        elif stuck_from_s is None:
            stuck_from_s = now_s
        elif now_s - stuck_from_s >= _REMOVING_S:
            raise NotRemoved(
                f"{len(ids)} containers and {len(volumes)} volumes of the run in {folder} could not be removed",
                f"something else uses or removes them; `testbed destroy {folder}` tries again",
            )
        if there:
            remove(engine, ids)
            remove_volumes(engine, volumes)
            quiet_from_s = time.monotonic()
        if there == before:
            time.sleep(_LOOK_S)
        before = there


def _word(labels: dict[str, str]) -> str:
    return f"node {labels[NODE_LABEL]}" if NODE_LABEL in labels else labels.get(PART_LABEL, "container")


# -- volumes: created with the first containers that mount them --------------------------------------------------------


def volumes_of(engine: DockerClient, folder: Path) -> list[str]:
    """The volumes of the run in that folder, found by label."""
    return [str(each["Name"]) for each in _labelled(engine, f"{FOLDER_LABEL}={folder}")]


def folders_with_volumes(engine: DockerClient) -> list[Path]:
    """The folders of all runs that have volumes, one for each volume."""
    return [Path(each["Labels"][FOLDER_LABEL]) for each in _labelled(engine, FOLDER_LABEL)]


def remove_volumes(engine: DockerClient, names: Sequence[str]) -> None:
    """Removes the volumes that no container uses. May be repeated."""
    from docker.errors import APIError

    for name in names:
        try:
            engine.api.remove_volume(name)
        except APIError as problem:
            if problem.status_code not in (_GONE, _IN_USE):
                raise


def _labelled(engine: DockerClient, *labels: str) -> list[dict[str, Any]]:
    found = engine.api.volumes(filters={"label": list(labels)})
    return list(found["Volumes"] or [])
