"""The containers of a run on a Docker Engine: created, watched, removed.

Takes descriptions of containers, gives their states; asks the Docker Engine, with concurrent requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import CouldNotStart
from testbed.image.engine_client import what_helps
from testbed.plan.containers import LOG_SIZE
from testbed.runtimes.docker.containers import (
    FOLDER_LABEL,
    NODE_LABEL,
    OF_RUN,
    PART_LABEL,
    Container,
    isolation_options,
)
from testbed.runtimes.docker.socket_places import Mount

if TYPE_CHECKING:
    from docker import DockerClient, types
    from docker.errors import APIError

WORKERS = 16
"""Concurrent requests. More do not make a Docker Engine create containers faster."""
_LAST_LINES = 5
_GONE, _CONFLICT = 404, 409
_KILLED, _REMOVED = 137, "it was removed, such as by `docker rm`"


@dataclass(frozen=True)
class EndedContainer:
    """How a container ended."""

    name: str
    part: str
    node: str | None
    exit_code: int
    out_of_memory: bool
    error: str
    said: str
    """Its last lines of output."""
    memory_bytes: int | None = None
    """Its memory limit."""


@dataclass(frozen=True)
class ListedContainer:
    """A container on the Docker Engine, running or not."""

    id: str
    state: str
    labels: dict[str, str]


class NameInUse(CouldNotStart):
    """Another container has the name."""


class ContainerSet:
    """The containers of one run."""

    def __init__(
        self, engine: DockerClient, image: str, workers: int = WORKERS, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Starts containers only while `wanted` says so."""
        self._api = engine.api
        self._image = image
        self._workers = workers
        self._wanted = wanted
        self._made: dict[str, Container] = {}
        """By id: the Docker Engine forgets a container that was removed from outside."""

    def start(self, containers: Sequence[Container], done: Callable[[int], None] = lambda _: None) -> dict[str, str]:
        """Creates and starts the containers, as long as they are wanted; gives ids by name.

        Calls `done` with the number of started containers. Raises CouldNotStart with the Docker Engine's message. No
        request is pending when this returns or raises.
        """
        ids: dict[str, str] = {}
        pool = ThreadPoolExecutor(self._workers)
        try:
            made = pool.map(lambda each: self._start(each) if self._wanted() else None, containers)
            for container, id_ in zip(containers, made, strict=True):
                if id_ is not None:
                    ids[container.name] = id_
                    done(len(ids))
        finally:
            _finish(pool)
        return ids

    def is_running(self, id_: str) -> bool:
        document = self._inspected(id_)
        return document is not None and bool(document["State"]["Running"])

    def has_failed(self, id_: str) -> bool:
        document = self._inspected(id_)
        return document is None or (not document["State"]["Running"] and bool(document["State"]["ExitCode"]))

    def _inspected(self, id_: str) -> dict[str, Any] | None:
        """None if the container was removed."""
        from docker.errors import NotFound

        try:
            return dict(self._api.inspect_container(id_))
        except NotFound:
            return None

    def pid(self, id_: str) -> int:
        """The id of the container's first process on the Docker Engine's host."""
        return int(self._api.inspect_container(id_)["State"]["Pid"])

    def ended(self, id_: str) -> EndedContainer:
        """How the container ended, and its last output."""
        document = self._inspected(id_)
        if document is None:
            made = self._made[id_]
            return EndedContainer(made.name, made.part, made.labels.get(NODE_LABEL), _KILLED, False, _REMOVED, "")
        state, labels = document["State"], document["Config"]["Labels"] or {}
        said = self._api.logs(id_, tail=_LAST_LINES).decode(errors="replace").strip()
        return EndedContainer(
            name=document["Name"].lstrip("/"),
            part=labels.get(PART_LABEL, ""),
            node=labels.get(NODE_LABEL),
            exit_code=int(state["ExitCode"]),
            out_of_memory=bool(state.get("OOMKilled")),
            error=str(state.get("Error", "")),
            said=said,
            memory_bytes=document["HostConfig"].get("Memory") or None,
        )

    def all_ended(self, ids: Iterable[str]) -> list[EndedContainer]:
        with ThreadPoolExecutor(self._workers) as pool:
            return list(pool.map(self.ended, ids))

    def _start(self, container: Container) -> str:
        from docker.errors import APIError

        try:
            id_ = self._create(container)
            self._made[id_] = container
            self._api.start(id_)
        except APIError as problem:
            if problem.status_code == _CONFLICT:
                raise self._in_use(container.name) from None
            raise CouldNotStart(*_words(problem)) from None
        return id_

    def _in_use(self, name: str) -> NameInUse:
        """The error for a name that is in use; names the run if the container has a label."""
        from docker.errors import APIError

        try:
            labels = self._api.inspect_container(name)["Config"]["Labels"] or {}
        except APIError:
            labels = {}
        folder = labels.get(FOLDER_LABEL)
        if folder is None:
            return NameInUse(f"the name {name} is in use: there is a container that has it", "give another --run-id")
        return NameInUse(
            f"the name {name} is in use: there is a container of the run in {folder}",
            f"`testbed destroy {folder}` removes it; or give another --run-id",
        )

    def _create(self, container: Container) -> str:
        from docker.types import LogConfig

        host = self._api.create_host_config(
            mounts=[_mount(each, container) for each in container.mounts],
            **isolation_options(),
            cap_add=list(container.capabilities),
            devices=[f"{device}:{device}:rwm" for device in container.devices],
            sysctls=container.sysctls,
            extra_hosts=container.hosts,
            mem_limit=container.memory_bytes,
            nano_cpus=None if container.processors is None else round(container.processors * 1e9),
            pids_limit=container.pids,
            cpu_shares=container.shares,
            restart_policy={"Name": "on-failure", "MaximumRetryCount": container.restarts}
            if container.restarts
            else None,
            log_config=LogConfig(type="json-file", config={"max-size": LOG_SIZE}),
        )
        made = self._api.create_container(
            image=self._image,
            command=[container.part],
            name=container.name,
            user=f"{container.user.uid}:{container.user.gid}",
            environment=container.environment,
            labels=container.labels,
            healthcheck={"test": ["NONE"]},  # control watches them; the image's own is one more process, each time
            host_config=host,
        )
        return str(made["Id"])


def _mount(mount: Mount, container: Container) -> types.Mount:
    """A mount. A new volume gets its container's labels, so `destroy` finds it however late it was created."""
    from docker import types

    if isinstance(mount.outside, Path):
        return types.Mount(str(mount.inside), str(mount.outside), type="bind", read_only=mount.read_only)
    labels = {name: container.labels[name] for name in OF_RUN}
    return types.Mount(
        str(mount.inside), mount.outside.name, type="volume", read_only=mount.read_only, labels=labels, no_copy=True
    )


def _words(problem: APIError) -> tuple[str, str]:
    return what_helps(problem.explanation or str(problem))


def _finish(pool: ThreadPoolExecutor) -> None:
    """Waits for pending requests, even after a second Ctrl-C: cleaning up must see everything that was created."""
    try:
        pool.shutdown(cancel_futures=True)
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        raise


def present(engine: DockerClient, folder: Path) -> list[ListedContainer]:
    """All containers of the run in that folder, running or not, found by label."""
    found = engine.api.containers(all=True, filters={"label": f"{FOLDER_LABEL}={folder}"})
    return [ListedContainer(each["Id"], each["State"], each["Labels"]) for each in found]


def of_run(engine: DockerClient, folder: Path) -> list[str]:
    """The ids of all containers of the run in that folder."""
    return [each.id for each in present(engine, folder)]


def remove(engine: DockerClient, ids: Sequence[str], workers: int = WORKERS) -> None:
    """Removes containers, running or not. May be repeated."""
    from docker.errors import APIError

    def remove_one(id_: str) -> None:
        try:
            engine.api.remove_container(id_, force=True)
        except APIError as problem:
            if problem.status_code not in (_GONE, _CONFLICT):  # removed already, or being removed
                raise

    pool = ThreadPoolExecutor(workers)
    try:
        list(pool.map(remove_one, ids))
    finally:
        _finish(pool)
