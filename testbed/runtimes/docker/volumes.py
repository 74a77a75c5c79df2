"""The volumes of a run on an Engine: found by their labels, removed when no container has them any more.

Takes a run directory, gives names; asks the Engine. They are made with the containers that mount them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.runtimes.docker.containers import FOLDER_LABEL

if TYPE_CHECKING:
    from docker import DockerClient

_GONE, _IN_USE = 404, 409


def volumes_of(engine: DockerClient, folder: Path) -> list[str]:
    """Of the run in that folder, by label."""
    return [str(each["Name"]) for each in _labelled(engine, f"{FOLDER_LABEL}={folder}")]


def folders_with_volumes(engine: DockerClient) -> list[Path]:
    """Of all runs that have any, with repetitions."""
    return [Path(each["Labels"][FOLDER_LABEL]) for each in _labelled(engine, FOLDER_LABEL)]


def remove_volumes(engine: DockerClient, names: Sequence[str]) -> None:
    """They are gone, but for those that a container still has; may be repeated."""
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
