"""Files of a run directory that were replaced by anything else: reading neither blocks nor reads another file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from testbed.run_files import open_plain, read_end, read_plain


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"of the reading user")
    (tmp_path / "run" / "engine").mkdir(parents=True)
    (tmp_path / "run" / "engine" / "health.json").write_bytes(b"0123456789")
    return tmp_path / "run"


def test_files_are_read(run: Path) -> None:
    health = run / "engine" / "health.json"
    assert read_plain(health, run) == b"0123456789"
    assert read_plain(health, run, 10) == b"0123456789"
    assert read_end(health, run, 4) == b"6789"
    assert read_end(health, run, 40) == b"0123456789"
    with pytest.raises(OSError, match="more than 0 MiB") as told:
        read_plain(health, run, 9)
    assert told.value.errno == errno.EFBIG
    with pytest.raises(FileNotFoundError):
        open_plain(run / "engine" / "none", run)


def test_the_run_itself_may_be_reached_by_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(run)
    linked = tmp_path / "other"
    assert read_plain(linked / "engine" / "health.json", linked) == b"0123456789"


def test_no_pipe_device_folder_or_link_is_read(run: Path, tmp_path: Path) -> None:
    os.mkfifo(run / "pipe")
    (run / "zero").symlink_to("/dev/zero")
    (run / "link").symlink_to(tmp_path / "secret")
    for name in ("pipe", "zero", "link", "engine"):
        with pytest.raises(OSError, match=r"is not a file|is a link or a file"):
            read_plain(run / name, run)


def test_no_folder_on_the_way_is_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "health.json").write_bytes(b"{}")
    (run / "nodes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a link or a file"):
        read_plain(run / "nodes" / "health.json", run)


def test_nothing_stays_open(run: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    os.mkfifo(run / "pipe")
    for name in ("engine/health.json", "pipe", "none/none"):
        try:
            read_plain(run / name, run)
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_outside_is_read(run: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "secret", run):
        with pytest.raises(OSError, match="it is not in"):
            read_plain(path, run)
