"""The marks of tests are kept true: one that starts a program without its mark fails."""

from __future__ import annotations

import sys

import pytest

from tests.marking import FIXTURES, MARKS, has_words

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.processes
TEST = f"""
import subprocess
import pytest
@pytest.fixture
def scratch(): pass
@pytest.fixture(scope="module")
def program(): return subprocess.run([{sys.executable!r}, "-c", ""])
def test_in_itself(): subprocess.run([{sys.executable!r}, "-c", ""])
def test_in_a_fixture(program): pass
def test_though_it_goes_wrong():
    with pytest.raises(OSError): subprocess.run(["/nowhere/at-all"])
def test_by_fixture(scratch): test_in_itself()
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
    assert "scratch" in FIXTURES


MARKED = """
import pytest
@pytest.mark.containers
def test_it(): pass
"""
BY_A_HELPER = """
from helper import starts
@starts
def test_too(): pass
"""


def collected(pytester: pytest.Pytester, *words: str) -> tuple[int | None, set[str]]:
    """The exit code, and the tests that are not passed over."""
    found = pytester.inline_run("-p", "tests.marking", "-p", "no:cacheprovider", "-n0", "--collect-only", *words)
    deselected = {item.name for call in found.getcalls("pytest_deselected") for item in call.items}
    names = {call.item.name for call in found.getcalls("pytest_itemcollected")}
    return found.ret, names - deselected


def test_a_group_of_few_is_found_by_what_stands_in_files_and_above_them(pytester: pytest.Pytester) -> None:
    tree = {
        "test_plain": "def test_plain(): raise ImportError",
        "test_it": MARKED,
        "there/conftest": "import pytest\ndef pytest_itemcollected(item): item.add_marker(pytest.mark.containers)",
        "there/below/test_below": "def test_below(): pass",
    }
    written(pytester, tree)
    assert collected(pytester, "-m", "containers and not alone") == (0, {"test_it", "test_below"})


def test_one_that_would_not_be_found_is_told_where_all_files_are_imported(pytester: pytest.Pytester) -> None:
    helper = "import pytest\nstarts = pytest.mark.containers"
    written(pytester, {"helper": helper, "test_it": MARKED, "test_too": BY_A_HELPER})
    assert collected(pytester, "-m", "containers")[1] == {"test_it"}, "which would stay unnoticed"
    assert collected(pytester, "-m", "not containers and not alone")[0] == pytest.ExitCode.USAGE_ERROR
    (pytester.path / "tests" / "test_too.py").write_text(f"{BY_A_HELPER}# starts is mark.containers\n")
    has_words.cache_clear()
    assert collected(pytester, "-m", "not containers and not alone")[0] == pytest.ExitCode.NO_TESTS_COLLECTED
    assert collected(pytester, "-m", "containers")[1] == {"test_it", "test_too"}


def written(pytester: pytest.Pytester, tree: dict[str, str]) -> None:
    marks = ", ".join(f'"{each}"' for each in sorted(MARKS))
    pytester.makepyprojecttoml(f'[tool.pytest.ini_options]\nmarkers = [{marks}]\ntestpaths = ["tests"]\n')
    for name, text in tree.items():
        file = pytester.path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_a_fixture_marks_those_that_use_it(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, "-m", "processes")
    assert found == {"passed": ["test_by_fixture", "test_by_mark"], "skipped": [], "failed": []}
