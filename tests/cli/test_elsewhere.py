"""macOS and Windows: virtual time, the topology tools and `collect` work, and what needs Linux says so.

Neither system is here: its lack of Linux's modules, constants and files is (`elsewhere`). One process runs all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from testbed.cli.linux_verbs import is_elsewhere
from testbed.cli.main import main
from testbed.cli.verbs import VERBS
from testbed.linux import NEED_LINUX
from tests.cli.elsewhere import OUTCOMES

pytestmark = pytest.mark.processes

SYSTEMS = ("darwin", "win32")
SMALL = """
services:
  a: {replicas: 4}
bridges: [r]
links: [{from: a, to: r, latency: 5ms, rate: 20Mbps}]
"""
TINY = ("deploy", "small.yaml", "--data", "digits", "--rounds", "2", "--set", "compute.ms_per_step=20")
VIRTUAL = (*TINY, "--runtime", "sim", "--run-id")
HERE = "results/here"
WORKS = (
    ("--help",),
    ("topologies",),
    ("validate", "small.yaml"),
    ("show", "small.yaml"),
    ("paths", "small.yaml"),
    ("draw", "small.yaml", "-o", "small.svg"),
    ("convert", "small.yaml", "-o", "small.xml"),
    ("generate", "star", "--nodes", "5"),
    ("render", "small.yaml", "--target", "kollaps", "-o", "rendered"),
    ("data", "list"),
    (*VIRTUAL, "one", "--workers", "2"),
    (*TINY, "--run-id", "by-itself"),
    ("deploy", "--plan", f"{HERE}/plan.json", "--run-id", "again"),
    (*TINY, "--dry-run"),
    ("collect", "results", "--format", "json"),
    ("collect", "here", "--by", "node"),
    ("status",),
    ("status", "here"),
    ("destroy", "here"),
)
REFUSED = (
    (*TINY, "--runtime", "local"),
    (*TINY, "--engine", "none"),
    (*TINY, "--engine", "fabric"),
    (*TINY, "--detach"),
    ("verify", "small.yaml"),
    ("verify", HERE, "--format", "json"),
    ("calibrate",),
)
REFUSED_ON_WINDOWS = (
    (*TINY, "--runtime", "docker"),
    ("build",),
    ("capture", "here", "a.0"),
    ("exec", "here", "a.0", "--", "true"),
    ("fault", "crash", "here", "a.0"),
    ("link", "show", "here"),
    ("prepare", "here"),
)
DOCTOR = ("doctor", "--format", "json")


class Result(NamedTuple):
    code: int
    stdout: str
    stderr: str
    crash: str


class System(NamedTuple):
    folder: Path
    results: dict[tuple[str, ...], Result]


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, System]:
    """What came of each command on each system, beside a run that was made on Linux."""
    folders = {name: tmp_path_factory.mktemp(name) for name in SYSTEMS}
    commands = {"darwin": [*WORKS, *REFUSED, DOCTOR], "win32": [*WORKS, *REFUSED, *REFUSED_ON_WINDOWS, DOCTOR]}
    for folder in folders.values():
        (folder / "small.yaml").write_text(SMALL)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            made = CliRunner().invoke(main, [*VIRTUAL, "here"])
        assert made.exit_code == 0, made.stderr
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "DOCKER_HOST": "unix:///nowhere.sock"}
    surroundings.pop("TESTBED_RUNTIME", None)
    asked = {name: (str(folders[name]), commands[name]) for name in SYSTEMS}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.elsewhere"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        env=surroundings,
    )
    found = {}
    for name, folder in folders.items():
        assert (folder / OUTCOMES).exists(), ran.stderr
        outcomes = json.loads((folder / OUTCOMES).read_text())
        found[name] = System(
            folder, {words: Result(**each) for words, each in zip(commands[name], outcomes, strict=True)}
        )
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_needs_no_linux_works(system: str, systems: dict[str, System]) -> None:
    for words in WORKS:
        result = systems[system].results[words]
        assert result.code == 0, f"{words}: {result.stderr}{result.crash}"


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_needs_linux_says_so(system: str, systems: dict[str, System]) -> None:
    results = systems[system].results
    for words in (*REFUSED, *(REFUSED_ON_WINDOWS if system == "win32" else ())):
        result = results[words]
        assert result.code == 4, f"{words}: {result.stderr}{result.crash}"
        assert NEED_LINUX in result.stderr
        assert "--runtime sim" in result.stderr
        assert "--engine none" not in result.stderr.replace("without --engine none", ""), "it needs Linux, too"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_is_the_same_to_the_byte(system: str, systems: dict[str, System]) -> None:
    """One process has the arithmetic there, several here; what is chosen by itself is virtual time there, too."""
    results = systems[system].folder / "results"
    here = {path.relative_to(results / "here"): path.read_bytes() for path in (results / "here").rglob("*.jsonl")}
    assert len(here) == 5
    for run in ("one", "by-itself", "again"):
        assert {name: (results / run / name).read_bytes() for name in here} == here


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_default_is_virtual_time_with_one_line_that_says_why(system: str, systems: dict[str, System]) -> None:
    where = systems[system]
    said = where.results[*TINY, "--run-id", "by-itself"].stderr.splitlines()
    (line,) = [each for each in said if each.startswith("runtime:")]
    assert line.startswith(f"runtime: sim, virtual time, since real learners cannot run here: {NEED_LINUX}; ")
    summary = json.loads((where.folder / "results/by-itself/summary.json").read_text())
    assert summary["runtime_choice"] == {"how": "fallback", "why": NEED_LINUX}
    told = [each for each in where.results[*VIRTUAL, "one", "--workers", "2"].stderr.splitlines() if "workers" in each]
    assert told == ["--workers 2: only on Linux are there processes that train; this one does all"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_doctor_says_what_is_linux_only(system: str, systems: dict[str, System]) -> None:
    result = systems[system].results[DOCTOR]
    assert result.code == 4, result.crash
    checks = {each["check"]: each for each in json.loads(result.stdout)}
    assert (checks["emulated network"]["ok"], checks["emulated network"]["found"]) == (False, NEED_LINUX)
    assert checks["virtual time"]["ok"]
    assert not checks["containers"]["ok"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_help_names_every_command(system: str, systems: dict[str, System]) -> None:
    told = systems[system].results["--help",].stdout
    assert all(f"  {verb} " in told for verb in VERBS)
    assert f"verify      Not on this system: {NEED_LINUX}" in told.replace("\n" + 14 * " ", " ")


def test_linux_has_every_command() -> None:
    assert not [verb for verb in VERBS if is_elsewhere(verb)]
