"""The folders of sockets on volumes: laid out by root, and the user's afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.engines.privileges import User
from testbed.errors import ExitCode
from testbed.node.compute_slots import slots_in
from testbed.runtimes.containers.__main__ import main
from testbed.runtimes.containers.container_paths import folder_of_node, slots_of
from testbed.runtimes.containers.layout import make_mounted, make_sockets

RANKS = (0, 1, 12)
OTHER_USER = User(1234, 1235)


def laid_out(sockets: Path) -> None:
    """As an Engine mounts volumes."""
    for each in (slots_of(sockets), *(folder_of_node(sockets, rank) for rank in RANKS)):
        each.mkdir(parents=True)


def user() -> User:
    return OTHER_USER if os.geteuid() == 0 else User(os.getuid(), os.getgid())


def test_all_of_it_is_the_users(tmp_path: Path) -> None:
    sockets = tmp_path / "sockets"
    laid_out(sockets)
    make_mounted(sockets, user(), 3)
    assert slots_in(slots_of(sockets)) == 3
    private = [sockets, *(folder_of_node(sockets, rank) for rank in RANKS)]
    assert {each.stat().st_mode & 0o777 for each in private} == {0o700}
    there = [sockets, *sockets.rglob("*")]
    assert len(there) == 1 + 1 + (2 * 3 + 1) + 1 + len(RANKS)  # a slot and a queue each, and their bell
    assert {(each.stat().st_uid, each.stat().st_gid) for each in there} == {(user().uid, user().gid)}


@pytest.mark.skipif(os.geteuid() != 0, reason="begins as root")
@pytest.mark.processes
def test_no_capability_is_needed_but_one(tmp_path: Path) -> None:
    sockets = tmp_path / "sockets"
    laid_out(sockets)
    program = (
        "from pathlib import Path; from testbed.engines.privileges import User; "
        "from testbed.runtimes.containers.layout import make_mounted; "
        f"make_mounted(Path({str(sockets)!r}), User(1234, 1235), 2)"
    )
    words = ["setpriv", "--inh-caps=-all,+chown", "--bounding-set=-all,+chown", sys.executable, "-c", program]
    subprocess.run(words, check=True, cwd=Path(__file__).parents[3])
    assert {each.stat().st_uid for each in (sockets, *sockets.rglob("*"))} == {1234}


def test_in_the_run_directory_all_are_made(tmp_path: Path) -> None:
    make_sockets(tmp_path / "sockets", RANKS, 2)
    assert [folder_of_node(tmp_path / "sockets", rank).is_dir() for rank in RANKS] == [True] * 3


def test_nobody_is_given_anything_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_UID", "me")
    assert main(["sockets"]) == ExitCode.USAGE
