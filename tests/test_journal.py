"""A journal holds whole records, or its writer is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from testbed.journal import CannotWrite, Journal
from testbed.records import Event, line

RECORD = Event(1.0, "something")


def test_records_are_there_at_once_and_a_torn_line_swallows_none(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"torn')
    journal = Journal(path)
    journal.write(RECORD)
    assert path.read_bytes() == b'{"torn\n' + line(RECORD)
    journal.close()
    journal.write(RECORD)
    assert path.read_bytes() == b'{"torn\n' + line(RECORD)


def test_a_record_that_only_half_fits_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    with pytest.raises(CannotWrite, match="the disk is full"):
        journal.write(RECORD)
    monkeypatch.undo()
    journal.close()


def test_a_full_disk_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = Journal(tmp_path / "journal.jsonl")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CannotWrite, match="No space left on device"):
        journal.write(RECORD)
    monkeypatch.undo()
    journal.close()
    with pytest.raises(CannotWrite, match="cannot write"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")
