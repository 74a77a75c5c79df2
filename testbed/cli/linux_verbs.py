"""Commands that only Linux can carry out, on systems that are none: what stands in their place, and says so.

Takes a command's name, gives a command that refuses.
"""

from __future__ import annotations

import click

from testbed.linux import NEED_LINUX, has_unix_sockets, is_linux, need_linux

NOT_HERE = f"Not on this system: {NEED_LINUX}."
_LINUX = frozenset({"verify", "calibrate"})
_SOCKETS = frozenset({"build", "capture", "exec", "fault", "link", "prepare"})
"""Of runs of containers, too, whose Engine may be in a virtual machine (Docker Desktop on macOS)."""


def is_elsewhere(name: str) -> bool:
    """Whether this system cannot carry it out."""
    return not is_linux() and (name in _LINUX or (name in _SOCKETS and not has_unix_sockets()))


def refusing(name: str) -> click.Command:
    """Takes whatever the command would take, and raises PreflightRefused."""

    def refuse(words: tuple[str, ...]) -> None:  # noqa: ARG001
        raise need_linux(f"`testbed {name}`")

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help=NOT_HERE,
    )
