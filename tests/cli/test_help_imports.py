"""Help is there at once: what only running a command needs is not imported to explain it. Modules, never timings."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from testbed.cli.verbs import HIDDEN, VERBS

pytestmark = pytest.mark.processes

HEAVY = {"torch", "numpy", "scipy", "pydantic", "yaml", "rich", "matplotlib", "networkx", "docker", "sklearn"}
NOT_AT_THE_TOP = HEAVY | {"msgspec", "asyncio", "ssl", "logging", "subprocess", "multiprocessing"}
EVERY_HELP = """
import json, sys
from click.testing import CliRunner
from testbed.cli.main import main

def modules(*words):
    before = set(sys.modules)
    result = CliRunner().invoke(main, [*words, "--help"])
    assert result.exit_code == 0, result.output
    return sorted(set(sys.modules) - before)

before = sorted(sys.modules)
print(json.dumps({"": before + modules(), **{verb: modules(verb) for verb in sys.argv[1:]}}))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """By verb, in one process: what the help of all verbs, and then of one after the other, imports."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_HELP, *VERBS, *HIDDEN], capture_output=True, text=True, check=True
    )
    return {verb: list(modules) for verb, modules in json.loads(done.stdout).items()}


def test_the_help_of_all_verbs_imports_none_of_them(loaded: dict[str, list[str]]) -> None:
    assert not NOT_AT_THE_TOP & set(loaded[""])
    ours = {name for name in loaded[""] if name.startswith("testbed.")}
    assert not {name for name in ours if not name.startswith("testbed.cli")} - {
        "testbed.errors",
        "testbed.linux",
        "testbed.units",
    }
    assert not {f"testbed.cli.{verb}" for verb in (*VERBS, *HIDDEN)} & ours


@pytest.mark.parametrize("verb", [*VERBS, *HIDDEN])
def test_a_verbs_help_imports_nothing_heavy(verb: str, loaded: dict[str, list[str]]) -> None:
    assert f"testbed.cli.{verb}" in loaded[verb]
    assert not HEAVY & set(loaded[verb])
