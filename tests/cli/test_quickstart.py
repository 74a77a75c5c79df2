"""`scripts/quickstart`: a small real run where the machine allows it, an unshaped one, said to be so, where not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]

INSTALLED = """#!/bin/sh
mkdir -p .venv/bin
"""
TESTBED = """#!/bin/sh
echo "testbed $*" >> said.txt
case "$1" in
    doctor) echo "what the doctor says"; exit {doctor} ;;
    deploy)
        case "$*" in
            *"--engine none") exit 0 ;;
            *"--runtime local"*) exit {local} ;;
        esac
        run=$(echo "$*" | sed 's/.*--run-id //')
        mkdir -p "results/$run"
        echo '{{"runtime": "{chosen}"}}' > "results/$run/plan.json"
        exit {deploy} ;;
esac
"""


def quickstart(
    folder: Path, *, chosen: str = "local", deploy: int = 0, doctor: int = 0, local: int = 0
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The script in a checkout where nothing is installed and every command is only written down.

    `chosen` is the runtime that `deploy` takes by itself; the numbers are exit codes, `local` that of `deploy` when it
    is told to take processes.
    """
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    (folder / "scripts").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "quickstart", folder / "scripts" / "quickstart")
    answers = {"doctor": doctor, "deploy": deploy, "local": local, "chosen": chosen}
    for path, text in {
        folder / "scripts" / "venv": INSTALLED,
        folder / ".venv" / "bin" / "testbed": TESTBED.format(**answers),
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
@pytest.mark.parametrize("chosen", ["local", "docker"])
def test_a_real_run_and_its_table(chosen: str, deploy: int, tmp_path: Path) -> None:
    """As `deploy` chooses: containers where there are such."""
    result, said = quickstart(tmp_path, chosen=chosen, deploy=deploy)
    assert result.returncode == 0, result.stderr
    assert [line.split()[1] for line in said] == ["deploy", "collect"]
    assert "topologies/wan16.xml --data digits" in said[0]
    assert "--runtime" not in said[0]
    assert "--engine" not in said[0]
    assert said[1].split("results/")[1] in said[0]
    assert ("testbed build" in result.stdout) is (chosen == "local"), "how to get them, where there are none"


def test_containers_that_have_no_room_become_processes(tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, chosen="docker", deploy=4)
    assert result.returncode == 0, result.stderr
    assert said[2].endswith("--runtime local --engine fabric")
    assert "in place of containers" in result.stderr
    assert len(said) == 4


def test_where_networks_are_denied_it_says_so_and_runs_unshaped(tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, deploy=4, doctor=4)
    assert result.returncode == 0
    assert "what the doctor says" in result.stdout
    assert "plain loopback, unshaped" in result.stderr
    assert said[2].endswith("--runtime local --engine none")
    assert len(said) == 4
    assert said[3].split("results/")[1] in said[2], "that run, and not what a refused one may have left"
    assert said[3].split("results/")[1] not in said[0]


@pytest.mark.parametrize(("deploy", "local", "expected"), [(6, 0, 6), (4, 4, 4), (4, 6, 6)])
def test_a_run_that_fails_fails_the_script(deploy: int, local: int, expected: int, tmp_path: Path) -> None:
    result, said = quickstart(tmp_path, deploy=deploy, local=local)
    assert result.returncode == expected
    assert not [line for line in said if "collect" in line]
