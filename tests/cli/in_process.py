"""Commands in the test's own process, as fast as a call."""

from __future__ import annotations

from click.testing import CliRunner, Result

from testbed.cli.main import main


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))
