"""One process at a time, on Unix and (with what Windows has in place of `fcntl`, made up) on Windows."""

from __future__ import annotations

import errno
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.node.data import file_lock
from tests.cli.elsewhere import windows_locks


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[int]]:
    """Three times the same file."""
    descriptors = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3)]
    yield descriptors
    for each in descriptors[1:]:
        os.close(each)


@pytest.mark.parametrize("system", ["linux", "win32"])
def test_a_lock_is_held_until_the_file_is_closed(
    system: str, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "msvcrt", windows_locks())
    monkeypatch.setattr(sys, "platform", system)
    module = runpy.run_path(file_lock.__file__)
    first, second, third = opened
    assert module["try_lock"](first)
    assert not module["try_lock"](second)
    os.close(first)
    module["wait_for_lock"](second)
    assert not module["try_lock"](third)


def test_on_windows_a_lock_is_waited_for_as_long_as_another_process_has_it_and_no_other_error_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter(
        [OSError(errno.EDEADLK, "given up"), None, OSError(errno.EBADF, "closed"), OSError(errno.EIO, "broken")]
    )

    def locking(*_: int) -> None:
        if (answer := next(answers)) is not None:
            raise answer

    locks = windows_locks()
    monkeypatch.setattr(locks, "locking", locking)
    monkeypatch.setitem(sys.modules, "msvcrt", locks)
    monkeypatch.setattr(sys, "platform", "win32")
    module = runpy.run_path(file_lock.__file__)
    module["wait_for_lock"](0)
    with pytest.raises(OSError, match="closed"):
        module["wait_for_lock"](0)
    with pytest.raises(OSError, match="broken"):
        module["try_lock"](0)
