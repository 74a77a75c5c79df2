"""A copy of the checkout, in which one file at a time is broken and tests are run. The checkout stays as it is."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from mutating.rows import ROOT, C, Mutation, broken
from mutating.stale import Stale

NEVER_COPIED = (".venv", ".git", ".*_cache", "__pycache__", ".hypothesis", "results")
LONGEST_TEST_S, LONGEST_S = 100, 600
CORE = "testbed/engines/fabric/native_plane/fabric_core.so"
COMPILE = "from testbed.engines.fabric.native_plane.compile_core import compile_core; compile_core(is_strict=False)"
"""What is broken may well leave a variable unused."""


class Ran(NamedTuple):
    """Of pytest."""

    status: int | None
    """None when it had to be ended."""
    said: str


class Tree:
    """A copy of the checkout, in a folder with all that its tests leave."""

    def __init__(self, folder: Path) -> None:
        self.path, self._temporary = folder / "tree", folder / "t"  # paths of sockets are short
        shutil.copytree(ROOT, self.path, ignore=shutil.ignore_patterns(*NEVER_COPIED))
        self._temporary.mkdir(parents=True)
        self._times = count(1_000_000_000)
        """A changed file must have another time, or Python would go on with what it has compiled."""
        self._is_over = False
        self._core = self._compiled()

    def test(self, tests: str) -> Ran:
        """Run these tests, on the package of this copy, and end whatever they leave."""
        words = ["-qx", "-p", "no:cacheprovider", f"--timeout={LONGEST_TEST_S}", *shlex.split(tests)]
        places = {"PYTHONPATH": str(self.path), "TMPDIR": str(self._temporary)}
        environment = {**os.environ, **places, "TESTBED_TEST_SOAK": "yes"}  # a soaked test notices as well
        command = [sys.executable, "-m", "pytest", *words]
        if self._is_over:
            return Ran(None, "")
        try:
            done = subprocess.run(
                command, cwd=self.path, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
            )
        except subprocess.TimeoutExpired:
            return Ran(None, "")
        finally:
            self.end_leftovers()
        return Ran(done.returncode, done.stdout)

    def text_of(self, mutation: Mutation) -> str:
        """The broken file; raises `Stale`."""
        path = self._path_of(mutation)
        if not path.exists():
            raise Stale(f"there is no testbed/{mutation.file}")
        return broken(mutation, path.read_text())

    @contextmanager
    def with_text(self, mutation: Mutation, text: str) -> Iterator[None]:
        path = self._path_of(mutation)
        original, times = path.read_text(), path.stat()
        path.write_text(text)
        os.utime(path, (next(self._times),) * 2)
        try:
            if mutation.file.endswith(C) and self._core and self._compiled() is None:
                raise Stale("this cannot be compiled")
            yield
        finally:
            if mutation.file.endswith(C) and self._core:
                (self.path / CORE).write_bytes(self._core)
            path.write_text(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def close(self) -> None:
        """Nothing is run here any more."""
        self._is_over = True
        self.end_leftovers()

    def is_over(self) -> bool:
        return self._is_over

    def end_leftovers(self) -> None:
        """Only what was started with this very copy."""
        mark = f"PYTHONPATH={self.path}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)

    def _compiled(self) -> bytes | None:
        """The library of the sources as they are; None where they cannot be compiled, or nothing can."""
        environment = {**os.environ, "PYTHONPATH": str(self.path)}
        done = subprocess.run(
            [sys.executable, "-c", COMPILE], cwd=self.path, env=environment, capture_output=True, check=False
        )
        return None if done.returncode else (self.path / CORE).read_bytes()

    def _path_of(self, mutation: Mutation) -> Path:
        return self.path / "testbed" / mutation.file
