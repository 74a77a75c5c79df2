"""The first process of a container, whatever its learner prints and leaves: it can always hear what control says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.runtimes.containers.supervisor import Supervisor, open_log


def test_a_learner_that_never_stops_printing_leaves_control_its_turn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    endless, file = os.open("/dev/zero", os.O_RDONLY), open_log(log)
    assert Supervisor._pass_on(endless, file)
    os.close(endless)
    os.close(file)
    assert log.stat().st_size == len(capfd.readouterr().out) == 1 << 20, "as much as a pipe holds"


def test_all_that_a_dead_learner_has_printed_is_in_its_log(tmp_path: Path) -> None:
    said, saying = os.pipe()
    os.set_blocking(said, False)
    os.write(saying, b"last words\n")
    file = open_log(tmp_path / "log.txt")
    assert Supervisor._pass_on(said, file), "the learner may say more"
    os.close(saying)
    assert not Supervisor._pass_on(said, file)
    os.close(said)
    os.close(file)
    assert (tmp_path / "log.txt").read_text() == "last words\n"


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_an_earlier_life_has_put_in_place_of_its_log_makes_nobody_wait_and_is_not_written_to(
    kind: str, tmp_path: Path
) -> None:
    log, other = tmp_path / "log.txt", tmp_path / "other"
    other.write_text("kept")
    match kind:
        case "pipe":
            os.mkfifo(log)
            reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        case "link":
            log.symlink_to(other)
        case "folder":
            log.mkdir()
    file = open_log(log)
    os.write(file, b"words")
    os.close(file)
    assert other.read_text() == "kept"
    if kind == "pipe":
        assert os.read(reader, 10) == b""
        os.close(reader)
