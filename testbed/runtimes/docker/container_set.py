"""All containers of a run, on an Engine: made, watched, removed.

Takes what each is like, gives what became of them; asks the Engine, with many questions under way at a time.
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
"""Questions under way at a time: an Engine makes no more containers at once however many it is asked for."""
_LAST_LINES = 5
_GONE, _CONFLICT = 404, 409
_KILLED, _REMOVED = 137, "somebody has removed it, such as by `docker rm`"


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
    """Its last lines."""
    memory_bytes: int | None = None
    """That it was allowed."""


@dataclass(frozen=True)
class ListedContainer:
    """A container that is there, alive or dead."""

    id: str
    state: str
    labels: dict[str, str]


class NameInUse(CouldNotStart):
    """There is a container that is called so."""


class ContainerSet:
    """Of one run."""

    def __init__(
        self, engine: DockerClient, image: str, workers: int = WORKERS, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Nothing is started any more that is not `wanted`."""
        self._api = engine.api
        self._image = image
        self._workers = workers
        self._wanted = wanted
        self._made: dict[str, Container] = {}
        """By id: what the Engine itself does not know any more of one that somebody has removed."""

    def start(self, containers: Sequence[Container], done: Callable[[int], None] = lambda _: None) -> dict[str, str]:
        """All of them, or those whose turn comes while they are wanted; gives their ids by name.

        `done` is told how many there are. Raises CouldNotStart with what the Engine says. However it ends, nothing is
        under way any more.
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
        """Nothing where somebody has removed it."""
        from docker.errors import NotFound

        try:
            return dict(self._api.inspect_container(id_))
        except NotFound:
            return None

    def pid(self, id_: str) -> int:
        """Of its first process, as the host of the Engine counts."""
        return int(self._api.inspect_container(id_)["State"]["Pid"])

    def ended(self, id_: str) -> EndedContainer:
        """How it ended, and what it said last."""
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
        """Whose it is, as far as a label says so."""
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
    """A volume gets its container's labels, whichever of them makes it: even one that comes when all is removed."""
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
    """What has begun is over, however impatient somebody is: who looks for what there is afterwards sees all of it."""
    try:
        pool.shutdown(cancel_futures=True)
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        raise


def present(engine: DockerClient, folder: Path) -> list[ListedContainer]:
    """All containers of the run in that folder, dead ones too: by label, never by name."""
    found = engine.api.containers(all=True, filters={"label": f"{FOLDER_LABEL}={folder}"})
    return [ListedContainer(each["Id"], each["State"], each["Labels"]) for each in found]


def of_run(engine: DockerClient, folder: Path) -> list[str]:
    """Their ids."""
    return [each.id for each in present(engine, folder)]


def remove(engine: DockerClient, ids: Sequence[str], workers: int = WORKERS) -> None:
    """They are gone, whatever they do; may be repeated."""
    from docker.errors import APIError

    def remove_one(id_: str) -> None:
        try:
            engine.api.remove_container(id_, force=True)
        except APIError as problem:
            if problem.status_code not in (_GONE, _CONFLICT):  # gone, or somebody else is at it
                raise

    pool = ThreadPoolExecutor(workers)
    try:
        list(pool.map(remove_one, ids))
    finally:
        _finish(pool)
