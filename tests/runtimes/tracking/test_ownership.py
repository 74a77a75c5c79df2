"""What is ended in the name of a run: what carries its mark or holds its directory, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.rundir import create_run
from testbed.runtimes.tracking.leftovers import destroy
from testbed.runtimes.tracking.ownership import MARK, end_marked, is_of_run, new_mark, owner_of
from testbed.runtimes.tracking.process_records import Places, process_record

pytestmark = pytest.mark.processes
ME = (os.geteuid(),)
SLEEP = "import time; time.sleep(60)"
FORKS = f"import os, time; [os.fork() for _ in range(4)]; {SLEEP}"
"""Sixteen processes, of which fifteen have another parent than the test."""


@contextmanager
def started(code: str = SLEEP, mark: str = "", folder: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program with that mark, which holds that folder open."""
    descriptor = None if folder is None else os.open(folder, os.O_RDONLY)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | {MARK: mark},
            pass_fds=() if descriptor is None else (descriptor,),
        ) as process:
            try:
                while not Path(f"/proc/{process.pid}/environ").read_bytes():
                    time.sleep(0.001)  # a program that is just being started has none yet
                yield process
            finally:
                process.kill()
    finally:
        if descriptor is not None:
            os.close(descriptor)


def carrying(mark: str) -> int:
    return sum(is_of_run(int(name), mark, Path("/nowhere")) for name in os.listdir("/proc") if name.isdecimal())


def test_a_process_is_of_the_run_whose_mark_it_carries(tmp_path: Path) -> None:
    mark = new_mark()
    with started(mark=mark) as process:
        assert is_of_run(process.pid, mark, tmp_path)
        for other in (new_mark(), mark[:-1], ""):
            assert not is_of_run(process.pid, other, tmp_path)
        assert owner_of(process.pid) == os.geteuid()
    assert not is_of_run(process.pid, mark, tmp_path)
    assert owner_of(process.pid) is None


def test_a_process_without_a_mark_is_of_no_run_without_one(tmp_path: Path) -> None:
    """A record of an older version has none."""
    with started() as process:
        assert not is_of_run(process.pid, "", tmp_path)


def test_a_process_is_of_the_run_whose_directory_it_holds(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with started(folder=tmp_path / "one") as process:
        assert is_of_run(process.pid, new_mark(), tmp_path / "one")
        assert not is_of_run(process.pid, new_mark(), tmp_path / "two")
        assert not is_of_run(process.pid, new_mark(), tmp_path / "three")


def test_all_that_a_run_s_programs_have_started_is_ended() -> None:
    mark, other = new_mark(), new_mark()
    with started(mark=other) as bystander, started(FORKS, mark) as process:
        deadline_s = time.monotonic() + 30
        while carrying(mark) < 16:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        assert end_marked(mark, ()) == 0, "of no processes"
        assert end_marked(mark, ME) == 16
        process.wait()
        assert carrying(mark) == 0
        assert bystander.poll() is None
        assert end_marked(mark, ME) == 0
        assert end_marked("", ME) == 0
        assert bystander.poll() is None


def test_a_record_that_a_learner_has_changed_ends_nobody_else(tmp_path: Path) -> None:
    """It names a process of this user's that is not the run's; what carries the mark in truth is ended."""
    run = create_run(tmp_path, "run")
    mark = new_mark()
    places = Places(run, tmp_path / "testbed-x", mark)
    places.runtime.mkdir()
    with started() as stranger, started(mark=mark) as own:
        planted = [process_record(f"node {number}", each.pid) for number, each in enumerate((stranger, own))]
        places.write_record([process_record("control", stranger.pid), *planted])
        removed = destroy(run)
        assert own.wait(10) == -signal.SIGKILL
        assert stranger.poll() is None
        assert set(removed.strangers) == {stranger.pid}
