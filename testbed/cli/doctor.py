"""`testbed doctor`: what this machine can run."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import NamedTuple

import click

from testbed.cli.output import Format, format_option, print_csv, print_json, print_table
from testbed.engines.abilities import what_is_denied
from testbed.engines.namespace import TcpSettings
from testbed.errors import ExitCode
from testbed.runtimes.local.needs import available_bytes, in_gib

COLUMNS = ("check", "ok", "found", "what to do")
_FEW_FILES = 4096
_LITTLE_BYTES = 2 * 2**30


class Check(NamedTuple):
    name: str
    ok: bool
    found: str
    hint: str = ""


@click.command("doctor")
@format_option
def command(*, output_format: Format) -> None:
    """Look at this machine: what can run here, what cannot, and what to do about it.

    \b
    Example:
      testbed doctor

    Exit code 4 when real processes cannot have networks of their own; `sim` runs everywhere.
    """
    checks = list(_checks())
    match output_format:
        case Format.JSON:
            print_json([dict(zip(COLUMNS, check, strict=True)) for check in checks])
        case Format.CSV:
            print_csv(COLUMNS, checks)
        case Format.TABLE:
            print_table(COLUMNS, [[each.name, "yes" if each.ok else "NO", each.found, each.hint] for each in checks])
    if not checks[0].ok:
        click.get_current_context().exit(ExitCode.REFUSED)


def _checks() -> Iterator[Check]:
    denied = what_is_denied(TcpSettings())
    if denied is None:
        yield Check("emulated network", True, "every node can have its own (namespace, TUN device, cubic)")
    else:
        yield Check("emulated network", False, denied.message, denied.hint)
    cores = len(os.sched_getaffinity(0))
    yield Check("cores", True, f"{cores}; as many learners train at once")
    memory = available_bytes()
    yield Check(
        "memory", memory >= _LITTLE_BYTES, f"{in_gib(memory)} available", "" if memory >= _LITTLE_BYTES else _FREE
    )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = files == resource.RLIM_INFINITY or files >= _FEW_FILES
    found = "as many as wanted" if files == resource.RLIM_INFINITY else f"{files} at most"
    yield Check("open files", enough, found, "" if enough else "raise it: ulimit -Hn 65536")
    idle = _may_idle()
    yield Check("idle priority", idle, "training gives way" if idle else "training disturbs the network's timing")


_FREE = "end other programs, or take few nodes"


def _may_idle() -> bool:
    """Tried in a process that ends: there is no way back."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            status = 0
        except OSError:
            pass
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
