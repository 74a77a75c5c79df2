"""Starts a run's containers: first one that finds where sockets can be reached, then all others.

Takes a plan and its run directory, gives the containers' ids; asks the Docker Engine, makes the folders of sockets.
The sockets are in the run directory if containers can reach them there, else on volumes.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cores import usable_cores
from testbed.engines.privileges import User
from testbed.errors import CouldNotStart, PreflightRefused
from testbed.image.engine_client import NOT_HERE
from testbed.node.data.store import made
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.containers.container_paths import sockets_of
from testbed.runtimes.containers.layout import lay_out_sockets, remove_sockets
from testbed.runtimes.containers.reachability import PROBE_FIRST, PROBE_SOCKET, Unreached, do_not_reach_over
from testbed.runtimes.docker.container_set import ContainerSet, NameInUse, remove
from testbed.runtimes.docker.containers import CONTROL, Container, containers_of, sockets_maker
from testbed.runtimes.docker.exec_stream import engine_socket
from testbed.runtimes.docker.leftovers import remove_all_of
from testbed.runtimes.docker.relayed import ON_ITS_MACHINE
from testbed.runtimes.docker.socket_places import InFolder, OnVolumes, SocketPlaces, Sockets
from testbed.runtimes.docker.verdict import why_not
from testbed.socket_paths import short_enough

if TYPE_CHECKING:
    from docker import DockerClient

_LOOK_S = 0.2
_MAKING_S = 60.0
"""How long making folders on volumes may take on a busy machine."""
_OLD = "is the image older than this testbed? Then build it again"
_UNSEEN = (
    "warning: the processes of containers cannot be seen from here (Docker Desktop, WSL 2, a container?): expected to "
    "work, not tested; the Docker Engine is asked whether the run goes on"
)
_ON_VOLUMES = (
    "warning: the run's sockets are on volumes, and are reached through the Docker Engine; Docker Desktop: expected to "
    "work, not tested"
)
_PROBE_TIMEOUT_S = 60.0
"""How long a running container may take to connect, on a busy machine."""
_DENIED = "may you write there, and is there room? Else give another folder with --results"
_CREDENTIALS = struct.Struct("3i")


class ContainerStarter:
    """Starts a run's containers, control first. Used once."""

    def __init__(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        data: Path,
        sockets: Sockets,
        *,
        is_wanted: Callable[[], bool],
        started: Callable[[int, int], None],
        met: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """Calls `started` with the number of started containers and of all; `met` when the sockets' place is known."""
        self._plan = plan
        self._directory = directory
        self._data = data
        self._sockets = sockets
        self._is_wanted = is_wanted
        self._started = started
        self._met = met
        self._say = say
        self._user = User(os.getuid(), os.getgid())
        self.on_volumes = False
        self.unseen = False
        """Whether this machine cannot see the containers' processes, or it is unknown."""

    def start(self, engine: DockerClient, container_set: ContainerSet) -> dict[str, str]:
        """The containers' ids by name, control's first; raises KeyboardInterrupt if the run is no longer wanted.

        Raises PreflightRefused if sockets on volumes are wanted, and this command could not reach them.
        """
        if self._sockets is Sockets.VOLUME:
            engine_socket(f"leave out --sockets, or give --sockets folder; or {ON_ITS_MACHINE}")
        else:
            try:
                return self._start_in_folder(container_set)
            except Unreached as problem:
                if self._sockets is Sockets.FOLDER:
                    raise
                self._say(problem.message)
            engine_socket(ON_ITS_MACHINE)
            remove_all_of(engine, self._directory.path)
            remove_sockets(self._directory)
        return self._start_on_volumes(engine, container_set)

    # -- in the run directory --------------------------------------------------------------------------------------

    def _start_in_folder(self, container_set: ContainerSet) -> dict[str, str]:
        """Raises Unreached if containers cannot reach sockets in the run directory."""
        lay_out_sockets(self._plan, self._directory, usable_cores())
        return self._all(container_set, InFolder(self._directory), self._start_and_probe)

    def _start_and_probe(self, container_set: ContainerSet, control: Container, of: int) -> str:
        """Starts control, which first connects to a socket of this command: what it can reach, all containers can."""
        with listen_for_first_container(sockets_of(self._directory)) as listener:
            probing = replace(control, environment={**control.environment, PROBE_FIRST: "1"})
            id_ = self._first(container_set, probing, of)
            pid = listener.await_probe(lambda: self._is_wanted() and container_set.is_running(id_))
            self._check_wanted()
            if pid is None:
                raise why_not(self._directory, [container_set.ended(id_)])
        if pid == 0:
            self.unseen = True
            self._say(_UNSEEN)
        return id_

    # -- on volumes ------------------------------------------------------------------------------------------------

    def _start_on_volumes(self, engine: DockerClient, container_set: ContainerSet) -> dict[str, str]:
        self._say(_ON_VOLUMES)
        self.on_volumes = self.unseen = True
        volumes = OnVolumes(self._plan.run_id, [node.rank for node in self._plan.nodes])
        self._make(engine, container_set, volumes)
        return self._all(container_set, volumes, self._first)

    def _make(self, engine: DockerClient, container_set: ContainerSet, volumes: OnVolumes) -> None:
        """Makes the folders on the volumes, owned by this user."""
        (id_,) = self._started_first(
            container_set, sockets_maker(self._plan, self._directory, self._user, volumes)
        ).values()
        until_s = time.monotonic() + _MAKING_S
        while container_set.is_running(id_):
            self._check_wanted()
            if time.monotonic() > until_s:
                raise PreflightRefused(f"making sockets on volumes has not ended within {_MAKING_S:g} s", _OLD)
            time.sleep(_LOOK_S)
        ended = container_set.ended(id_)
        if ended.exit_code:
            raise PreflightRefused(
                f"cannot make sockets on volumes: {ended.said or ended.error or f'exit code {ended.exit_code}'}",
                _OLD,
            )
        remove(engine, [id_])

    # -- anywhere --------------------------------------------------------------------------------------------------

    def _all(
        self,
        container_set: ContainerSet,
        sockets: SocketPlaces,
        start_first: Callable[[ContainerSet, Container, int], str],
    ) -> dict[str, str]:
        data = made(self._data)  # a mounted folder must exist, even if no data set is cached yet
        containers = containers_of(self._plan, self._directory, self._user, data, sockets)
        control = next(each for each in containers if each.part == CONTROL)
        others = [each for each in containers if each is not control]
        ids = {control.name: start_first(container_set, control, len(containers))}
        self._met()
        ids |= container_set.start(others, lambda count: self._started(1 + count, len(containers)))
        if len(ids) < len(containers):
            raise KeyboardInterrupt
        return ids

    def _first(self, container_set: ContainerSet, control: Container, of: int) -> str:
        return self._started_first(container_set, control, lambda count: self._started(count, of))[control.name]

    def _started_first(
        self, container_set: ContainerSet, container: Container, done: Callable[[int], None] = lambda _: None
    ) -> dict[str, str]:
        """Starts one container. An error is a refusal: the Docker Engine would deny all others the same."""
        try:
            ids = container_set.start([container], done)
        except NameInUse:
            raise
        except CouldNotStart as problem:
            raise PreflightRefused(problem.message, problem.hint) from None
        self._check_wanted()
        return ids

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise KeyboardInterrupt


class ReachabilitySocket:
    """Accepts the connection of a run's first container."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        listener.settimeout(_LOOK_S)

    def await_probe(self, goes_on: Callable[[], bool], timeout_s: float = _PROBE_TIMEOUT_S) -> int | None:
        """The id of the process that has connected, 0 if this machine does not see it; None if it ended before.

        `goes_on` says whether the container runs. Raises PreflightRefused if it runs and does not connect in time.
        """
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            try:
                return self._accept()
            except TimeoutError:
                if not goes_on():
                    return None
        raise PreflightRefused(
            f"the first container runs, and has not reached this command within {timeout_s:g} s",
            "is the image older than this testbed? Then build it again. Or is the folder of results not on the machine "
            f"that the Docker Engine runs on? {NOT_HERE}",
        )

    def _accept(self) -> int:
        connection, _ = self._listener.accept()
        with connection:
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(found)[0])


@contextmanager
def listen_for_first_container(sockets: Path) -> Iterator[ReachabilitySocket]:
    """A listening socket for the first container.

    Raises Unreached if the folder's file system has no sockets, PreflightRefused for errors that volumes do not solve.
    """
    path = sockets / PROBE_SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            with short_enough(path) as name:
                listener.bind(name)
        except OSError as problem:
            words = f"there can be no sockets in the folder of results: {problem.strerror or problem}"
            if not do_not_reach_over(problem) and problem.errno != errno.EPERM:  # that is a file system without any
                raise PreflightRefused(words, _DENIED) from None
            raise Unreached(words, "leave out --sockets, or give --sockets volume") from None
        try:
            path.chmod(0o600)
            listener.listen(1)
            yield ReachabilitySocket(listener)
        finally:
            path.unlink(missing_ok=True)
