"""`scripts/quickstart`: one run and what came of it, in few lines that end with what to try next."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.written_commands import assert_command_exists

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
MOST_LINES = 25

INSTALLED = """#!/bin/sh
mkdir -p .venv/bin
"""
TESTBED = """#!/bin/sh
echo "testbed $*" >> said.txt
if [ "$1" = deploy ]; then
    run=$(echo "$*" | sed 's/.*--run-id //; s/ .*//')
    mkdir -p "results/$run"
    echo '{{"runtime": "{chosen}"}}' > "results/$run/plan.json"
    exit {deploy}
fi
echo the table
"""
DRAWN_ANEW = re.compile(r"[^\n]*\n(?:\x1b\[\?25h|\r)*\x1b\[1A")
"""What a terminal shows for a moment: the next line takes its place."""
TO_TRY = ".venv/bin/testbed "


def checkout(folder: Path, testbed: str) -> list[str]:
    """A checkout where nothing needs to be installed, and that command is there; gives what runs the script."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    (folder / "scripts").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "quickstart", folder / "scripts" / "quickstart")
    for path, text in {folder / "scripts" / "venv": INSTALLED, folder / ".venv" / "bin" / "testbed": testbed}.items():
        path.write_text(text)
        path.chmod(0o755)
    return [bash, str(folder / "scripts" / "quickstart")]


def quickstart(
    folder: Path, *, chosen: str = "local", deploy: int = 0
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """With commands that are only written down; `deploy` takes that runtime by itself, and ends with that exit code."""
    words = checkout(folder, TESTBED.format(chosen=chosen, deploy=deploy))
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    return result, (folder / "said.txt").read_text().splitlines()


@pytest.mark.parametrize(("chosen", "deploy"), [("local", 0), ("local", 7), ("docker", 0), ("sim", 0)])
def test_a_run_and_its_table_on_whatever_deploy_takes(chosen: str, deploy: int, tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, chosen=chosen, deploy=deploy)
    assert result.returncode == 0, result.stderr
    assert [line.split()[1] for line in said] == ["deploy", "collect"]
    assert "topologies/wan16.xml --data digits" in said[0]
    assert "--runtime" not in said[0]
    assert "--engine" not in said[0]
    assert said[0].endswith(" --quiet"), "a log is not told how far it is"
    assert said[1].split("results/")[1] in said[0]
    assert ("This was virtual time" in result.stdout) is (chosen == "sim")


def test_it_ends_with_the_result_and_three_commands_that_there_are(tmp_path: Path) -> None:
    result, _ = quickstart(tmp_path)
    *before, one, two, three = result.stdout.splitlines()
    assert before == ["the table", "Three things to try:"]
    for line in (one, two, three):
        command = line.strip()
        assert command.startswith(TO_TRY), "as it can be pasted, without activating anything"
        assert_command_exists(command.removeprefix(".venv/bin/"))


@pytest.mark.parametrize("deploy", [4, 6])
def test_a_run_that_fails_fails_the_script(deploy: int, tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, deploy=deploy)
    assert result.returncode == deploy
    assert not [line for line in said if "collect" in line]


def test_all_that_a_terminal_shows_is_few_lines(tmp_path: Path) -> None:
    """Which is told more than a log; with the line about the installation, and without what is drawn anew."""
    words = checkout(tmp_path, f'#!/bin/sh\nexec "{sys.executable}" -m testbed "$@"\n')
    master, slave = pty.openpty()
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "dumb"}
    ) as process:
        os.close(slave)
        shown = b""
        with suppress(OSError):  # reading from a terminal that no process has open any more
            while part := os.read(master, 1 << 16):
                shown += part
    os.close(master)
    text = shown.decode()
    assert process.returncode == 0, text
    assert "next: testbed collect results/quickstart-" in text
    assert "emulated s: until the end of the last round" in text, "as collect explains it"
    lines = [line for line in DRAWN_ANEW.sub("", text).split("\n") if "This was virtual time" not in line]
    assert "testbed doctor" in lines[-2], "and nothing behind it"
    # Real processes say three lines more: of their step, of their time scale, and that all have begun.
    assert 1 + len(lines[:-1]) + 3 <= MOST_LINES, text
