"""Commands of an ordinary user, who may use the Docker Engine, but is not root."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.image.engine_client import engine_address
from testbed.runtimes.tracking.removal import clear_away
from tests.docker.runs import environment, words

A_USER = 1234
_STAYS = "dac_read_search"
"""Other users may not be able to read root's interpreter. It is of no use for entering anything."""


class Ordinary:
    """A user, who owns a folder."""

    def __init__(self, folder: Path) -> None:
        """Skips where there is no such user."""
        self.folder = folder
        self.uid = os.getuid() or A_USER
        self._prefix: list[str] = []
        if os.getuid() == 0:
            os.chown(folder, self.uid, self.uid)
            self._prefix = [
                *("setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", f"--groups={_group()}"),
                *(f"--inh-caps=-all,+{_STAYS}", f"--ambient-caps=-all,+{_STAYS}", f"--bounding-set=-all,+{_STAYS}"),
            ]

    def started(self, *arguments: str, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """`testbed` with these words."""
        return subprocess.Popen(
            [*self._prefix, *words(*arguments)],
            cwd=self.folder,
            env={**environment(), "HOME": str(self.folder), "TESTBED_DATA": str(self.folder / "cache")},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def did(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """The same, once it has ended; `typed` is its standard input."""
        with self.started(*arguments, stdin=subprocess.PIPE) as process:
            try:
                said, errors = process.communicate(typed, timeout=150)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, said, errors)


@contextmanager
def with_a_folder() -> Iterator[Ordinary]:
    """One whose folder is gone afterwards, whatever is in it. That of pytest is for root only."""
    folder = Path(tempfile.mkdtemp(prefix="testbed-test-user-"))
    try:
        yield Ordinary(folder)
    finally:
        clear_away(folder)


def _group() -> int:
    """Whose members may use the Engine."""
    kind, _, path = engine_address().partition("://")
    if kind != "unix":
        pytest.skip("the Engine has no socket of this machine")
    info = os.stat(path)
    if not info.st_mode & stat.S_IWGRP:
        pytest.skip("the Engine's socket is for root only")
    return info.st_gid
