"""Commands that need Linux: on other systems they are replaced by commands that refuse.

Takes a command's name, gives a command that refuses.
"""

from __future__ import annotations

import click

from testbed.linux import NEED_LINUX, has_unix_sockets, is_linux, need_linux

NOT_HERE = f"Not on this system: {NEED_LINUX}."
_LINUX = frozenset({"verify", "calibrate"})
_SOCKETS = frozenset({"build", "capture", "exec", "fault", "link", "prepare"})
"""Commands that also serve runs of containers, whose Docker Engine may be in a virtual machine (Docker Desktop on
macOS)."""


def is_elsewhere(name: str) -> bool:
    """Whether this system cannot run the command."""
    return not is_linux() and (name in _LINUX or (name in _SOCKETS and not has_unix_sockets()))


def refusing(name: str) -> click.Command:
    """A command that accepts all arguments, and raises PreflightRefused."""

    def refuse(words: tuple[str, ...]) -> None:  # noqa: ARG001
        raise need_linux(f"`testbed {name}`")

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help=NOT_HERE,
    )
