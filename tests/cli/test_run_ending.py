"""What is said when a run is over."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from testbed.cli.run_ending import tell_ending
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.progress import ProgressTally
from testbed.records import Failure
from tests.runtimes.sim_runs import plan_of, star

PLAN = plan_of(star(2))
LATE = Outcome("finished", 1.0, 1, (), ProgressTally((0,), 3, None).look(1.0), overloaded=("the fabric was late",))


@click.command()
def command() -> None:
    tell_ending(LATE, PLAN, Path("r"), 1.0, lambda words: click.echo(words, err=True))


def test_what_a_learner_has_said_is_no_command_to_a_terminal_and_has_an_end() -> None:
    words = "\x1b]0;owned\x07\nsecond line" + "x" * 100_000
    failed = NodeFailure("a.0", Failure(words))

    @click.command()
    def ends() -> None:
        outcome = Outcome("failed", 1.0, 0, (failed,), broken=(words,), remarks=(words,))
        tell_ending(outcome, PLAN, Path("r"), 1.0, lambda said: click.echo(said, err=True))

    told = CliRunner().invoke(ends, color=True)
    assert "\x1b" not in told.stderr
    assert "\x07" not in told.stderr
    assert told.stderr.count("second line") == 3
    assert len(told.stderr) < 10_000


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("NO_COLOR", "")])
def test_it_is_loud_and_in_colour_only_where_that_is_wanted(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`color=True`: as on a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    told = CliRunner().invoke(command, color=True)
    assert told.exit_code == 7
    assert "OVERLOADED: " in told.stderr
    assert "the fabric was late" in told.stderr
    assert "  likely to be valid: testbed --time-scale 2\n  (the same experiment in more real time" in told.stderr
    assert ("\x1b[" in told.stderr) == (not value)
