"""`logs` prints what nodes have printed, and no other file, whatever stands in place of a log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.plan.files import write_plan
from testbed.rundir import RunDirectory, create_run
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star

LINE = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = create_run(tmp_path, "r")
    write_plan(made, locally(plan_of(star(2))))
    return made


def logs(run: RunDirectory) -> str:
    told = CliRunner().invoke(main, ["logs", str(run.path)])
    assert told.exit_code == 0, told.output
    return told.stdout


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(kind: str, run: RunDirectory, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("somebody's own\n")
    log = run.node("node.0").log
    match kind:
        case "link":
            log.symlink_to(own)
        case "pipe":
            os.mkfifo(log)
        case "folder":
            log.mkdir()
    run.node("node.1").log.write_text("hello\n")
    assert logs(run) == "node.1  hello\n"


def test_a_line_without_an_end_is_printed_in_parts(run: RunDirectory) -> None:
    run.node("node.0").log.write_bytes(b"x" * (2 * LINE + 5) + b"\nend\n")
    assert [len(line) for line in logs(run).splitlines()] == [LINE + 8, LINE + 8, 5 + 8, 3 + 8]


def test_no_command_reaches_the_terminal(run: RunDirectory) -> None:
    run.node("node.0").log.write_bytes(b"\x1b]0;owned\x07\n")
    assert "\x1b" not in logs(run)
