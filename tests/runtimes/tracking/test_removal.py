"""Whatever a learner has made of a folder that it could write to, it is gone afterwards, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.runtimes.tracking.removal import clear_away, empty


def test_nothing_is_left_of_it_however_deep_and_closed_and_nothing_is_followed(tmp_path: Path) -> None:
    others = tmp_path / "others"
    (others / "sub").mkdir(parents=True)
    (others / "sub" / "file").write_text("kept")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(others)
    (folder / "nowhere").symlink_to("nowhere")
    (folder / "file").write_text("x")
    (folder / "-rf").mkdir()
    os.mkfifo(folder / "-rf" / "pipe")
    (folder / "-rf" / "up").symlink_to(others / "sub")
    dig(folder / "deep", 3000)
    for each in (folder / "-rf", folder / "deep", folder):
        each.chmod(0)
    clear_away(folder)
    assert not folder.exists()
    assert (others / "sub" / "file").read_text() == "kept"
    clear_away(folder)


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "file").write_text("kept")
    (tmp_path / "link").symlink_to(others)
    clear_away(tmp_path / "link")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "others"]


def test_what_cannot_go_holds_up_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name / "sub").mkdir(parents=True)
    remove = Path.rmdir

    def stubborn(path: Path) -> None:
        if path.name == "b":
            raise PermissionError(path)
        remove(path)

    monkeypatch.setattr(Path, "rmdir", stubborn)
    empty(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["b"]


def dig(folder: Path, deep: int) -> None:
    """Deeper than paths are long."""
    folder.mkdir()
    at = os.open(folder, os.O_RDONLY)
    for _ in range(deep):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
