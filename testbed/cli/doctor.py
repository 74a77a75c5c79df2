"""`testbed doctor`: what this machine can run."""

from __future__ import annotations

import click

from testbed.cli.output import Format, format_option, print_csv, print_json, print_table
from testbed.errors import ExitCode
from testbed.runtimes import registry

COLUMNS = ("check", "ok", "found", "what to do")


@click.command("doctor")
@format_option
def command(*, output_format: Format) -> None:
    """Check what can run on this machine, what cannot, why, and what to do about it.

    \b
    Example:
      testbed doctor

    Exit code 4 when real processes cannot have networks of their own; `--runtime sim` runs everywhere, and `--engine
    none` runs real processes over plain loopback.
    """
    found = [check for runtime in reversed(registry.RUNTIMES) for check in runtime.checks()]
    rows = [each[: len(COLUMNS)] for each in found]
    match output_format:
        case Format.JSON:
            print_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
        case Format.CSV:
            print_csv(COLUMNS, rows)
        case Format.TABLE:
            print_table(COLUMNS, [[name, "yes" if ok else "NO", *rest] for name, ok, *rest in rows])
    if any(each.required and not each.ok for each in found):
        click.get_current_context().exit(ExitCode.REFUSED)
