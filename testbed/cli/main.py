"""The `testbed` command: finds the verb's module when it is asked for, and turns errors into exit codes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from importlib import import_module
from typing import Any, TextIO

import click

from testbed import __version__
from testbed.cli.findings import print_findings
from testbed.cli.linux_verbs import NOT_HERE, is_elsewhere, refusing
from testbed.cli.verb_group import WORDS, VerbGroup
from testbed.cli.verbs import HIDDEN, VERBS
from testbed.errors import CouldNotStart, ExitCode, InvalidInput, TestbedError, UsageProblem

_SHORT_OF = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of missing processes, memory or descriptors. An error of writing to standard output also has the number of
written characters."""


def _show(problem: TestbedError) -> None:
    """Prints the error to stderr; if that is closed, the exit code remains."""
    try:
        if isinstance(problem, InvalidInput):
            print_findings(problem.file, problem.findings)
        click.echo(f"Error: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"  {problem.hint}", err=True)
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Discards buffered output, so that the interpreter does not try to write it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _prepare_streams() -> None:
    """Replaces closed standard streams, and lets standard output escape characters that it cannot show."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _unwritable(problem: OSError) -> ExitCode:
    """Handles OSError. Files raise errors of their own, so without a file name this one is about standard output."""
    if problem.filename is not None:
        _show(UsageProblem(f"{problem.filename}: {problem.strerror or problem}"))
        return ExitCode.USAGE
    if problem.errno in _SHORT_OF and not hasattr(problem, "characters_written"):
        _show(CouldNotStart(f"this machine has no room for what is to be started: {problem.strerror}"))
        return ExitCode.NOT_STARTED
    _silence(sys.stdout)
    if problem.errno == errno.EPIPE:
        return ExitCode.BROKEN_PIPE
    _show(UsageProblem(f"cannot write the output: {problem.strerror or problem}"))
    return ExitCode.USAGE


def _check_working_directory() -> None:
    """Raises UsageProblem if the working directory has been removed, since every relative path would fail."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageProblem("the working directory has been removed", "change to one that is there: cd ~") from None


class _Verbs(VerbGroup):
    """Imports a verb's module only when that verb is used, so that `--help` and small commands start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def sentences(self, ctx: click.Context) -> list[tuple[str, str]]:  # noqa: ARG002
        return [(name, NOT_HERE if is_elsewhere(name) else sentence) for name, sentence in VERBS.items()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in (*VERBS, *HIDDEN):
            return None
        if is_elsewhere(cmd_name):
            return refusing(cmd_name)
        command = import_module(f"testbed.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - every verb's module has a `command`
        return command

    def main(self, *arguments: Any, **options: Any) -> Any:
        _prepare_streams()
        try:
            return super().main(*arguments, **options)
        except OSError as problem:  # from printing the help or the version, which happens before any verb
            sys.exit(_unwritable(problem))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            _check_working_directory()
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except TestbedError as problem:
            _show(problem)
            ctx.exit(problem.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(ExitCode.INTERRUPTED)
        except OSError as problem:
            ctx.exit(_unwritable(problem))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="testbed")
def main() -> None:
    """A network-emulation testbed for decentralized learning.

    \b
    Example:
      testbed topologies
      testbed show topologies/wan16.xml
      testbed deploy topologies/wan16.xml --data digits --rounds 20 --run-id first
      testbed collect results/first

    Every command explains itself: testbed deploy --help.
    """
