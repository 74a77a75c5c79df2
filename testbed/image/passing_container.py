"""A container for one question to an image: gone again, whatever happens meanwhile.

Takes an image that is there, gives a container's id; asks the Engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docker import DockerClient


@contextmanager
def passing_container(
    engine: DockerClient,
    image: str,
    command: Sequence[str] = ("true",),
    entrypoint: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Not started, and without a network; its files are the image's."""
    made = engine.api.create_container(
        image,
        command=list(command),
        entrypoint=None if entrypoint is None else list(entrypoint),
        network_disabled=True,
        **(more or {}),
    )
    id_ = str(made["Id"])
    try:
        yield id_
    finally:
        engine.api.remove_container(id_, force=True)
