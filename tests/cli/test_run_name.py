"""Names of runs: the same rule for runs that are started and that are rendered."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.errors import UsageProblem
from testbed.runtimes.run_place import LONGEST, checked_run_name, made_run_name

BAD = ("", ".hidden", "_x", "-x", "a b", "a/b", "../x", "ä", "x\n", "x" * (LONGEST + 1))


def test_what_cannot_be_a_name() -> None:
    for bad in BAD:
        with pytest.raises(UsageProblem, match="cannot be a run's name"):
            checked_run_name(bad)
    for good in ("a", "0", "A.b_c-1", "x" * LONGEST):
        assert checked_run_name(good) == good


@pytest.mark.parametrize("verb", [("deploy",), ("render", "--target", "kollaps")])
@pytest.mark.parametrize("bad", [".hidden", "_x", "a b"])
def test_all_commands_have_one_rule(
    verb: tuple[str, ...], bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(main, [*verb, "lan4", f"--run-id={bad}", "--quiet"])
    assert (told.exit_code, f"`{bad}` cannot be a run's name" in told.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("topology", ["wan16", "_odd", ".-_", "Ä", "a b/c", "x" * 300, "ä" * 300])
@pytest.mark.parametrize("algorithm", ["dpsgd", "mine.py:Mine", "there/mine.py:Übung", "m:" + "Y" * 300])
@pytest.mark.parametrize("ending", ["", "20260102-030405"])
def test_what_is_made_is_one_with_room_for_a_number(topology: str, algorithm: str, ending: str) -> None:
    made = made_run_name(topology, algorithm, ending)
    assert checked_run_name(made) == made
    assert checked_run_name(f"{made}-1000") == f"{made}-1000"
    assert made.endswith(ending)


def test_a_name_tells_topology_and_algorithm() -> None:
    assert made_run_name("wan16", "mine.py:Mine", "now") == "wan16-Mine-now"
    assert made_run_name("Ä", "Ä") == "run"
