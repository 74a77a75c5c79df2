"""The base image: found on the Docker Engine, or pulled.

Takes a name or None, gives the name of a present image; asks the Docker Engine, which may ask a registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.errors import PreflightRefused
from testbed.image.facts import id_of

if TYPE_CHECKING:
    from docker import DockerClient

USUAL = "python:3.11-slim"
OWN = "testbed-base:bookworm"
"""The image that scripts/base-image makes."""
_HINT = (
    f"`scripts/base-image` makes one, {OWN}, on a machine that can reach a Debian mirror; or name another with --base"
)


def choose_base(engine: DockerClient, given: str | None, say: Callable[[str], None]) -> str:
    """The base that was asked for. By default USUAL, or OWN where only that is present."""
    if given is not None:
        if id_of(engine, given) is None:
            _pull(engine, given, say)
        return given
    found = base_here(engine)
    if found is None:
        _pull(engine, USUAL, say)
    elif found == OWN:
        say(f"building on {OWN}: {USUAL} is not here (--base {USUAL} fetches it)")
    return found or USUAL


def base_here(engine: DockerClient) -> str | None:
    """The default base, if it is present."""
    return next((name for name in (USUAL, OWN) if id_of(engine, name) is not None), None)


def _pull(engine: DockerClient, name: str, say: Callable[[str], None]) -> None:
    import requests
    from docker.errors import APIError

    say(f"fetching the base image {name}")
    repository, tag = _split(name)
    try:
        engine.api.pull(repository, tag=tag)
    except (APIError, requests.RequestException) as problem:
        said = getattr(problem, "explanation", None) or str(problem)
        raise PreflightRefused(
            f"the base image {name} is not here and cannot be fetched: {str(said).splitlines()[0][:300]}", _HINT
        ) from None
    if id_of(engine, name) is None:
        raise PreflightRefused(f"the base image {name} is not here and could not be fetched", _HINT)


def _split(name: str) -> tuple[str, str | None]:
    """Repository and tag. A port is not a tag; a digest belongs to the repository."""
    if "@" in name:
        return name, None
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")
