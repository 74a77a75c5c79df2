"""The running containers of a run: found by their labels, inspected.

Takes a run directory, gives ids; asks the Docker Engine. Containers are never looked up by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.image.engine_client import connected
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.container_set import WORKERS
from testbed.runtimes.docker.containers import CONTROL, FOLDER_LABEL, PART_LABEL, RANK_LABEL
from testbed.runtimes.runtime import UNSEEN

if TYPE_CHECKING:
    from docker import DockerClient


_ANSWER_S = 30.0


def pids_of_nodes(run: RunDirectory, rank: int | None = None) -> dict[int, int]:
    """By rank, the id of the first process of every running learner's container; UNSEEN if not on this machine.

    With a rank, of that node only.
    """
    label = RANK_LABEL if rank is None else f"{RANK_LABEL}={rank}"
    with connected() as engine:
        found = engine.api.containers(filters={"label": [*_of(run), label]})
        with ThreadPoolExecutor(WORKERS) as pool:
            pids = list(pool.map(lambda each: _pid(engine, each["Id"]), found))
    return {int(each["Labels"][RANK_LABEL]): pid for each, pid in zip(found, pids, strict=True) if pid is not None}


def is_led(run: RunDirectory) -> bool:
    """Whether the Docker Engine says that the run's control runs."""
    with connected(_ANSWER_S) as engine:
        return control_of(engine, run) is not None


def control_of(engine: DockerClient, run: RunDirectory) -> str | None:
    """The id of control's container; None if it does not run."""
    return _running(engine, run, f"{PART_LABEL}={CONTROL}")


def container_of_node(engine: DockerClient, run: RunDirectory, rank: int) -> str | None:
    """The id of the node's container; None if it does not run."""
    return _running(engine, run, f"{RANK_LABEL}={rank}")


def allow_one_more(run: RunDirectory, ranks: Sequence[int]) -> dict[int, int]:
    """Raises the restart limit of the nodes' containers by one; gives the new limits by rank.

    Leaves out nodes whose container does not run. Raises the Docker Engine's errors.
    """
    with connected(_ANSWER_S) as engine, ThreadPoolExecutor(WORKERS) as pool:
        allowed = list(pool.map(lambda rank: _allow(engine, container_of_node(engine, run, rank)), ranks))
    return {rank: times for rank, times in zip(ranks, allowed, strict=True) if times is not None}


def _allow(engine: DockerClient, container: str | None) -> int | None:
    if container is None:
        return None
    before = engine.api.inspect_container(container)["HostConfig"]["RestartPolicy"]
    times = int(before["MaximumRetryCount"]) + 1  # 0 if the container is never restarted
    engine.api.update_container(container, restart_policy={"Name": "on-failure", "MaximumRetryCount": times})
    return times


def _running(engine: DockerClient, run: RunDirectory, label: str) -> str | None:
    found = engine.api.containers(filters={"label": [*_of(run), label]})
    return str(found[0]["Id"]) if found else None


def _pid(engine: DockerClient, id_: str) -> int | None:
    """None if the container has ended."""
    from docker.errors import NotFound

    try:
        pid = int(engine.api.inspect_container(id_)["State"]["Pid"])
    except NotFound:
        return None
    if not pid:
        return None
    return pid if is_process_of(pid, id_) else UNSEEN


def is_process_of(pid: int, container: str) -> bool:
    """Whether this machine's process of that id is in the container; an id of another machine may mean any process."""
    try:
        return container in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def _of(run: RunDirectory) -> list[str]:
    return [f"{FOLDER_LABEL}={run.path.resolve()}"]
