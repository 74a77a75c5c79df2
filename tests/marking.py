"""Which tests start processes: marked by what they use, and kept true.

`processes` stands for a test that starts programs: learners, fabrics, `testbed` itself in a process of its own. Tests
that use one of FIXTURES are marked here, and so are those with one of MARKS; others mark themselves. A test that starts
a program without being marked fails, wherever it does so: `./scripts/test --quick` has none of them. Workers that
virtual time forks are no programs, nor is what probes this machine.

`soaked` stands for one that CI has no time for, since others there try nearly the same; `scripts/soak tests` has.

`needs_network` stands for one that makes emulated networks; where the machine denies them it is skipped, and says why.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

FIXTURES: Final = frozenset({"scratch", "image"})
MARKS: Final = frozenset({"processes", "containers", "alone", "needs_network"})
FEW: Final = ("alone", "containers")
"""Groups of few tests, whose files are found by their text; a run that imports all checks that none is missed."""
SOAKED: Final = "`scripts/soak tests` tries it"
LOOKS: Final = frozenset({"fc-list"})
"""What a library asks of a machine once, and remembers: the first drawing on a new one looks for fonts."""
_TEST: Final = os.getpid()
_started: list[str] = []
"""By the test that is run at this time."""


def _notice(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and os.getpid() == _TEST:
        words = arguments[1]
        told = [*map(str, words)] if isinstance(words, list | tuple) else [str(words)]
        if told[0] not in LOOKS:
            _started.append(" ".join(told))


sys.addaudithook(_notice)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where a group of few tests is asked for, files that never name it are not imported, which takes long."""
    asked = re.match(rf"({'|'.join(FEW)})\b", config.option.markexpr)
    if asked is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS or collection_path.suffix != ".py":
        return None
    return None if _may_mark(collection_path, config.rootpath, asked[1]) else True


def _may_mark(path: Path, root: Path, mark: str) -> bool:
    """By what stands in the file, or in a `conftest.py` beside or above it."""
    conftests = (folder / "conftest.py" for folder in path.parents if folder.is_relative_to(root))
    return any(has_words(each, f"mark.{mark}") for each in (path, *conftests))


@cache
def has_words(file: Path, words: str) -> bool:
    return file.exists() and words in file.read_text()


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    for item in items:
        for mark in FEW:
            if item.get_closest_marker(mark) and not _may_mark(item.path, config.rootpath, mark):
                raise pytest.UsageError(
                    f"{item.nodeid} would not be found with -m {mark}: name mark.{mark} in its file"
                )
        if uses_processes(item):
            item.add_marker(pytest.mark.processes)
        if item.get_closest_marker("soaked") and not is_soak():
            item.add_marker(pytest.mark.skip(reason=SOAKED))
        if item.get_closest_marker("needs_network") and (denied := network_denied()):
            item.add_marker(pytest.mark.skip(reason=denied))


def is_soak() -> bool:
    """Whether there is time for all tests."""
    return bool(os.environ.get("TESTBED_TEST_SOAK"))


def uses_processes(item: pytest.Item) -> bool:
    """By its marks and its fixtures."""
    fixtures = frozenset(getattr(item, "fixturenames", ()))
    return not FIXTURES.isdisjoint(fixtures) or any(item.get_closest_marker(mark) for mark in MARKS)


@cache
def network_denied() -> str | None:
    """Why this machine gives no emulated networks; None where it does."""
    from testbed.engines.namespace import TcpSettings
    from testbed.engines.network_check import what_is_denied

    denied = what_is_denied(TcpSettings())
    return None if denied is None else str(denied)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """What fixtures of a wider scope have started counts for the test that came first."""
    yield
    if _started and not uses_processes(item):
        pytest.fail(f"mark it with pytest.mark.processes, since it starts programs: {_started[0]:.200}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    _started.clear()
    return (yield)
