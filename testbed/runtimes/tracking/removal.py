"""Removes folders that learners could write to, whatever they have made of them.

Takes a path, gives nothing; touches what is there and below, where nobody writes any more. Links are removed and never
followed, folders that were closed are opened, and how deep they lie does not matter.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def clear_away(folder: Path) -> None:
    """It is gone, as far as that can be; may be repeated."""
    with suppress(OSError):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink(missing_ok=True)
            return
        empty(folder)
        folder.rmdir()


def empty(folder: Path) -> None:
    """The same of all that is in it."""
    lasting: set[str] = set()
    while below := [each for each in _folders_left(folder) if each.name not in lasting]:
        for each in below:
            try:
                _flatten(each, folder)
            except OSError:
                lasting.add(each.name)


def _flatten(folder: Path, top: Path) -> None:
    """Gone, and what lay deeper lies right below the top: no path gets long, and nothing calls itself."""
    for each in _folders_left(folder):
        each.chmod(0o700)  # to be moved it must be writable
        each.rename(top / f"cleared-{secrets.token_hex(8)}")
    folder.rmdir()


def _folders_left(folder: Path) -> list[Path]:
    """Without anything else in it."""
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
