"""What a killed verification leaves is found by what it has recorded, and nothing else is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.process_records import ProcessRecord, process_record
from testbed.verify.work_folder import PREFIX, RECORD, Owned, make_work_folder, remove_leftovers
from tests.engines.world import needs_network


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


DEAD = ProcessRecord("verify", os.getpid(), 1)
"""The id of a process that lives, of another time."""


def left(temp: Path, name: str, owned: Owned) -> Path:
    folder = temp / (PREFIX + name)
    folder.mkdir(mode=0o700)
    (folder / RECORD).write_bytes(msgspec.json.encode(owned))
    return folder


def test_nothing_is_left_in_good_order(temp: Path) -> None:
    with make_work_folder() as work:
        assert [each.parent for each in temp.rglob(RECORD)] == [work.folder]
        assert work.folder.stat().st_mode & 0o077 == 0
        assert remove_leftovers() == []
        assert work.folder.exists()
    assert list(temp.iterdir()) == []


@pytest.mark.processes
def test_what_a_dead_one_started_is_ended(temp: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = left(temp, "dead", Owned(DEAD, (process_record("fabric", sleeper.pid),)))
    assert remove_leftovers() == [folder.name]
    assert sleeper.wait(5) == -signal.SIGKILL
    assert not folder.exists()
    assert remove_leftovers() == []


@pytest.mark.processes
def test_a_later_process_with_the_same_id_is_not_ours(temp: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = left(temp, "dead", Owned(DEAD, (ProcessRecord("fabric", sleeper.pid, 1),)))
    remove_leftovers()
    assert sleeper.poll() is None
    assert not folder.exists()


@pytest.mark.processes
def test_who_goes_on_is_left_alone(temp: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = left(temp, "alive", Owned(process_record("verify", sleeper.pid), (ProcessRecord("fabric", 1, 1),)))
    assert remove_leftovers() == []
    assert folder.exists()


@pytest.mark.processes
def test_what_others_could_have_written_is_not_believed(temp: Path, sleeper: subprocess.Popen[bytes]) -> None:
    owned = Owned(DEAD, (process_record("fabric", sleeper.pid),))
    left(temp, "open", owned).chmod(0o777)
    target = left(temp, "x", owned).rename(temp / "elsewhere")
    (temp / (PREFIX + "link")).symlink_to(target)
    (temp / (PREFIX + "empty")).mkdir()
    left(temp, "torn", owned).joinpath(RECORD).write_bytes(b'{"owner":')
    assert remove_leftovers() == []
    assert sleeper.poll() is None
    assert len(list(temp.iterdir())) == 5


SMALL = """
services: {a: {}, b: {}}
links:
  - {from: a, to: b, latency: 20ms, rate: 5Mbps}
"""


def descendants(pid: int) -> list[ProcessRecord]:
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [process_record("child", int(child)), *descendants(int(child))]
    return found


@needs_network
@pytest.mark.parametrize("phase", [pytest.param("losses", marks=pytest.mark.soaked), "queues and rates"])
def test_a_kill_leaves_only_what_the_next_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    short = tempfile.mkdtemp(prefix="tbt-", dir="/tmp")  # paths of sockets are short
    words = [sys.executable, "-m", "testbed", "verify", str(tmp_path / "small.yaml")]
    environment = {**os.environ, "TMPDIR": short}
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip() == phase.encode():
                break
        time.sleep(0.5)
        started = descendants(process.pid)
        assert len(started) >= 5  # the fabric, two nodes, and what they do
        process.kill()
    deadline_s = time.monotonic() + 10
    while any(is_alive(each) for each in started) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not [each for each in started if is_alive(each)]
    monkeypatch.setattr(tempfile, "tempdir", short)
    assert len(remove_leftovers()) == 1
    os.rmdir(short)
