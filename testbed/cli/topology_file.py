"""The FILE argument of every command that reads a topology: finds and loads the file, and prints its findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from testbed.cli.output import printable
from testbed.errors import Finding, UsageProblem, closest
from testbed.topologies.bundled import BUNDLED, find_bundled

if TYPE_CHECKING:
    from testbed.topologies.load import Loaded
    from testbed.topologies.model import Topology

_Function = TypeVar("_Function", bound=Callable[..., Any])


def topology_argument(function: _Function) -> _Function:
    """FILE, passed on as `file`."""
    return click.argument("file", type=str)(function)


@dataclass(frozen=True)
class OpenedTopology:
    """A topology without errors."""

    topology: Topology
    findings: tuple[Finding, ...]
    shown: str


def load_named(file: str, *, quiet: bool = False) -> Loaded:
    """Loads the file as given, or else the bundled one of that name, which is announced on stderr unless `quiet`."""
    from testbed.topologies.load import load

    try:
        own = Path(file).exists()
    except (OSError, ValueError):
        own = True  # not a valid name: reading it reports why
    bundled = None if own else find_bundled(file)
    if bundled is None:
        if not own:
            raise _nowhere(file)
        return load(file)
    if not quiet:
        click.echo(f"using the bundled topology {bundled}", err=True)
    return load(bundled)


def _nowhere(file: str) -> UsageProblem:
    """The problem that there is neither a file nor a bundled topology of that name."""
    if Path(file).parts[:1] == ("topologies",):
        names = [f"topologies/{each.file_name}" for each in BUNDLED]
    else:
        names = [name for each in BUNDLED for name in (each.name, each.file_name)]
    near = closest(file, names)
    hint = "`testbed topologies` lists those that are bundled" if near is None else f"did you mean `{near}`?"
    return UsageProblem(f"{printable(file)}: does not exist, and no topology of that name is bundled", hint)


def open_topology(file: str) -> OpenedTopology:
    """A topology without errors; raises InvalidInput if it has any."""
    loaded = load_named(file)
    return OpenedTopology(loaded.require(), loaded.findings, loaded.file)
