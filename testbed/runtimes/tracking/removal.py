"""Removes folders that learners could write to, whatever they contain.

Takes a path, gives nothing; removes what is there and below. No process may write there any more. Links are removed and
never followed, unreadable folders are made readable, and nesting may be arbitrarily deep.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def clear_away(folder: Path) -> None:
    """Removes a folder or file, as far as possible. May be repeated."""
    with suppress(OSError):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink(missing_ok=True)
            return
        empty(folder)
        folder.rmdir()


def empty(folder: Path) -> None:
    """Removes everything in a folder, as far as possible."""
    lasting: set[str] = set()
    while below := [each for each in _folders_left(folder) if each.name not in lasting]:
        for each in below:
            try:
                _flatten(each, folder)
            except OSError:
                lasting.add(each.name)


def _flatten(folder: Path, top: Path) -> None:
    """Removes a folder after moving its subfolders right below `top`: no long paths, no recursion."""
    for each in _folders_left(folder):
        each.chmod(0o700)  # moving a folder needs write permission
        each.rename(top / f"cleared-{secrets.token_hex(8)}")
    folder.rmdir()


def _folders_left(folder: Path) -> list[Path]:
    """The subfolders of a folder, after removing its files."""
    with suppress(OSError):
        folder.chmod(0o700)
    left = []
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                left.append(Path(each.path))
            else:
                with suppress(OSError):
                    os.unlink(each.path)
    return left
