"""Whatever a learner does to its own folder of sockets, the run's cleanup removes it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from testbed.engines.privileges import User, acting_as
from testbed.runtimes.containers import SUPERVISOR_SOCKET
from testbed.runtimes.containers.container_paths import folder_of_node
from testbed.runtimes.containers.end_mark import leave_mark, mark_in
from testbed.runtimes.containers.layout import remove_within

_A_USER = User(1234, 1234)
RANKS = range(3)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """As an ordinary user, since folders are never closed to root."""
    top = Path(tempfile.mkdtemp(prefix="testbed-test-sockets-"))
    if os.getuid() == 0:
        os.chown(top, _A_USER.uid, _A_USER.gid)
    try:
        with acting_as(_A_USER) if os.getuid() == 0 else nullcontext():
            for rank in RANKS:
                folder_of_node(top, rank).mkdir(parents=True)
                (folder_of_node(top, rank) / SUPERVISOR_SOCKET).touch()
            yield top
            for path in top.glob("nodes/*"):
                path.chmod(0o700)
    finally:
        shutil.rmtree(top)


@pytest.mark.parametrize("mode", [0o300, 0])
def test_one_that_is_closed_is_cleared_and_so_are_all_others(mode: int, sockets: Path) -> None:
    hostile, good, _ = (folder_of_node(sockets, rank) for rank in RANKS)
    mark_in(hostile).mkdir()
    hostile.chmod(mode)
    leave_mark(good, 3)
    remove_within(sockets, [mark_in(folder_of_node(sockets, rank)) for rank in RANKS])
    assert sorted(path for path in sockets.rglob("*")) == [
        *(sockets / "nodes", hostile, mark_in(hostile)),
        *(good, mark_in(good)),
    ]
    remove_within(sockets)
    assert list(sockets.iterdir()) == []


def test_one_that_cannot_be_opened_keeps_nobody_from_the_others(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its learner closes it again at once."""
    hostile = folder_of_node(sockets, 0)
    opened = Path.chmod
    monkeypatch.setattr(Path, "chmod", lambda path, mode: opened(path, 0 if path == hostile else mode))
    remove_within(sockets, [mark_in(folder_of_node(sockets, rank)) for rank in RANKS])
    assert [path.name for path in (sockets / "nodes").iterdir()] == ["0"]
    monkeypatch.undo()
