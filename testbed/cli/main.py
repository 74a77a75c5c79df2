"""The `testbed` command: finds the verb's module when it is asked for, and turns errors into exit codes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from importlib import import_module
from typing import Any

import click

from testbed import __version__
from testbed.cli.findings import print_findings
from testbed.errors import ExitCode, InvalidInput, TestbedError, UsageProblem

VERBS = ("topologies", "validate", "show", "paths", "generate", "convert", "draw", "schema")


def _show(problem: TestbedError) -> None:
    """Words for people go to stderr."""
    if isinstance(problem, InvalidInput):
        print_findings(problem.file, problem.findings)
    click.echo(f"Error: {problem.message}", err=True)
    if problem.hint:
        click.echo(f"  {problem.hint}", err=True)


def _give_up_stdout() -> None:
    """What is still buffered cannot be written either; the interpreter must not try once more at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Verbs(click.Group):
    """Imports a verb's module only when that verb is used, so that `--help` and small commands start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command = import_module(f"testbed.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - every verb's module has one
        return command

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a name is no reason to stop
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except TestbedError as problem:
            _show(problem)
            ctx.exit(problem.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(ExitCode.INTERRUPTED)
        except OSError as problem:  # files are opened and written with errors of ours: this is standard output
            _give_up_stdout()
            if problem.errno == errno.EPIPE:
                ctx.exit(ExitCode.BROKEN_PIPE)
            _show(UsageProblem(f"cannot write the output: {problem.strerror or problem}"))
            ctx.exit(ExitCode.USAGE)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="testbed")
def main() -> None:
    """A network-emulation testbed for decentralized learning.

    \b
    Example:
      testbed validate topologies/wan256.xml
      testbed show topologies/wan256.xml
    """
