"""Containers that are to come back once more than the topology's events say: somebody wants their nodes back by hand.

Takes a run directory and ranks, gives how often each container is started again at most; asks the Engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from typing import TYPE_CHECKING

from testbed.image.engine_client import connected
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.container_set import WORKERS
from testbed.runtimes.docker.live import container_of_node

if TYPE_CHECKING:
    from docker import DockerClient

_ANSWER_S = 30.0


def allow_one_more(run: RunDirectory, ranks: Sequence[int]) -> dict[int, int]:
    """By rank, how often the Engine now starts its container again in all: once more than it would have.

    Without those whose containers do not run: nothing brings them back. Raises what the Engine says.
    """
    with connected(_ANSWER_S) as engine, ThreadPoolExecutor(WORKERS) as pool:
        allowed = list(pool.map(lambda rank: _allow(engine, container_of_node(engine, run, rank)), ranks))
    return {rank: times for rank, times in zip(ranks, allowed, strict=True) if times is not None}


def _allow(engine: DockerClient, container: str | None) -> int | None:
    if container is None:
        return None
    before = engine.api.inspect_container(container)["HostConfig"]["RestartPolicy"]
    times = int(before["MaximumRetryCount"]) + 1  # which is 0 where it is never started again
    engine.api.update_container(container, restart_policy={"Name": "on-failure", "MaximumRetryCount": times})
    return times
