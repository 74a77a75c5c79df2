"""Files that learners leave are harmless: set-id bits, very deep folders, closed ones, links."""

from __future__ import annotations

import faulthandler
import os
import stat
from pathlib import Path

import pytest

from testbed.isolation.sandbox import learner_environment
from testbed.rundir import create_run
from testbed.runtimes.processes.shared_models import SharedModels
from testbed.runtimes.tracking.file_owners import hand_over, keep_private

DEEP = 1500


def test_nothing_of_it_runs_as_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    run = create_run(tmp_path, "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    elsewhere.chmod(0o4755)
    node = run.nodes / "a"
    (node / "closed").mkdir(parents=True)
    for path in (node / "evil", node / "closed" / "evil"):
        path.write_text("")
        path.chmod(0o6755)
    (node / "link").symlink_to(elsewhere)
    (node / "closed").chmod(0)
    keep_private(run)
    assert stat.S_IMODE(run.nodes.stat().st_mode) == 0o700
    hand_over(run)
    assert stat.S_IMODE((node / "evil").stat().st_mode) == 0o755
    (node / "closed").chmod(0o755)
    assert stat.S_IMODE((node / "closed" / "evil").stat().st_mode) == 0o755
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o4755, "links are not followed"
    assert run.nodes.stat().st_mode == run.path.stat().st_mode


def test_folders_in_each_other_without_end_come_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    run = create_run(tmp_path / "results", "run")
    before = os.getcwd()
    os.chdir(run.nodes)
    for _ in range(DEEP):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(before)
    hand_over(run)
    depth, folder = 0, run.nodes
    while (folder / "d").is_dir():
        depth, folder = depth + 1, folder / "d"
    assert 30 < depth < 50
    if os.geteuid() == 0:
        assert {path.stat().st_uid for path in (run.path, run.nodes, folder)} == {1234}


def test_tokens_are_not_passed_on() -> None:
    given = {
        "PATH": "/usr/bin",
        "LC_ALL": "C",
        "TESTBED_DATA": "/data",
        "AWS_SECRET": "x",
        "GITHUB_TOKEN": "x",
        "HOME": "/",
    }
    assert learner_environment(given).keys() == {"PATH", "LC_ALL", "TESTBED_DATA"}


def test_a_node_reaches_no_model_but_its_own() -> None:
    import numpy as np

    shelf = SharedModels(3, 1000)
    for rank in range(3):
        shelf.put(rank, np.full(1000, rank, np.float32), is_last=False)
    for reads, status in ((1, 0), (0, 11), (2, 11)):
        child = os.fork()
        if child == 0:
            faulthandler.disable()  # it is expected
            shelf.keep_only(1)
            own = shelf.vectors([reads], [0])[0][0] == reads
            os._exit(0 if own else 1)
        assert os.waitpid(child, 0)[1] & 0x7F == status
    assert [float(each[0]) for each in shelf.vectors([0, 1, 2], [0, 0, 0])] == [0.0, 1.0, 2.0]
