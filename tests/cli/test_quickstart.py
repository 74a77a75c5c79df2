"""`scripts/quickstart`: a small real run where the machine allows it, an unshaped one, said to be so, where not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

INSTALLED = """#!/bin/sh
mkdir -p .venv/bin
"""
TESTBED = """#!/bin/sh
echo "testbed $*" >> said.txt
case "$1" in
    doctor) echo "what the doctor says"; exit {doctor} ;;
    deploy) exit {deploy} ;;
esac
"""


def quickstart(folder: Path, doctor: int, deploy: int) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The script in a checkout where nothing is installed and every command is only written down."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    (folder / "scripts").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "quickstart", folder / "scripts" / "quickstart")
    for path, text in {
        folder / "scripts" / "venv": INSTALLED,
        folder / ".venv" / "bin" / "testbed": TESTBED.format(doctor=doctor, deploy=deploy),
    }.items():
        path.write_text(text)
        path.chmod(0o755)
    result = subprocess.run(
        [bash, str(folder / "scripts" / "quickstart")],
        capture_output=True,
        text=True,
        check=False,
    )
    return result, (folder / "said.txt").read_text().splitlines()


@pytest.mark.parametrize("deploy", [0, 7])
def test_a_real_run_and_its_table(deploy: int, tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, 0, deploy)
    assert result.returncode == 0, result.stderr
    assert [line.split()[1] for line in said] == ["doctor", "deploy", "collect"]
    assert "topologies/wan16.xml --data digits" in said[1]
    assert said[1].endswith("--runtime local --engine fabric")
    assert said[2].split("results/")[1] in said[1]


def test_where_networks_are_denied_it_says_so_and_runs_unshaped(tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, 4, 0)
    assert result.returncode == 0
    assert "what the doctor says" in result.stdout
    assert "plain loopback, unshaped" in result.stderr
    assert said[1].endswith("--runtime local --engine none")
    assert len(said) == 3


def test_a_run_that_fails_fails_the_script(tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, 0, 6)
    assert result.returncode == 6
    assert len(said) == 2
