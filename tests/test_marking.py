"""The marks of tests are kept true: one that starts a program without its mark fails."""

from __future__ import annotations

import sys

import pytest

from tests.marking import FIXTURES, MARKS

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.processes
TEST = f"""
import subprocess
import pytest
@pytest.fixture
def corner(): pass
@pytest.fixture(scope="module")
def program(): return subprocess.run([{sys.executable!r}, "-c", ""])
def test_in_itself(): subprocess.run([{sys.executable!r}, "-c", ""])
def test_in_a_fixture(program): pass
def test_though_it_goes_wrong():
    with pytest.raises(OSError): subprocess.run(["/nowhere/at-all"])
def test_by_fixture(corner): test_in_itself()
@pytest.mark.processes
def test_by_mark(): test_in_itself()
def test_none(): pass
"""


def outcomes(pytester: pytest.Pytester, *words: str) -> dict[str, list[str]]:
    marks = ", ".join(f'"{each}"' for each in sorted(MARKS))
    pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\nmarkers = [{marks}]\n")
    pytester.makepyfile(TEST)
    listed = pytester.inline_run("-p", "tests.marking", "-p", "no:cacheprovider", "-n0", *words).listoutcomes()
    return {
        name: [each.nodeid.split("::")[1] for each in found]
        for name, found in zip(("passed", "skipped", "failed"), listed, strict=True)
    }


def test_who_starts_a_program_unmarked_fails(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester)
    assert found["failed"] == ["test_in_itself", "test_in_a_fixture", "test_though_it_goes_wrong"]
    assert found["passed"] == ["test_by_fixture", "test_by_mark", "test_none"]
    assert "corner" in FIXTURES


def test_a_fixture_marks_those_that_use_it(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, "-m", "processes")
    assert found == {"passed": ["test_by_fixture", "test_by_mark"], "skipped": [], "failed": []}
