"""A capture that cannot go on says so when it is over; the fabric goes on whatever happens to the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.engines.fabric.capture import Captures
from testbed.errors import UsageProblem

HEADER_BYTES, RECORD_BYTES = 24, 16
FULL = Path("/dev/full")
ASKER = 7


def test_what_fits_is_there_and_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.engines.fabric.capture.MOST_BYTES", 3 * (100 + RECORD_BYTES))
    captures = Captures()
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    for _ in range(3):
        captures.files[0].add(bytes(100))
    captures.end(0, ASKER)
    assert (tmp_path / "a.pcap").stat().st_size == HEADER_BYTES + 3 * (100 + RECORD_BYTES)
    captures.end(0, ASKER)  # again, when there is none


def test_one_that_has_become_too_large_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.engines.fabric.capture.MOST_BYTES", 3 * (100 + RECORD_BYTES))
    captures = Captures()
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    for _ in range(5):
        captures.files[0].add(bytes(100))
    with pytest.raises(UsageProblem, match=r"a\.pcap does not have all packets: it has 348 bytes, the most"):
        captures.end(0, ASKER)
    assert (tmp_path / "a.pcap").stat().st_size == HEADER_BYTES + 3 * (100 + RECORD_BYTES)
    captures.begin(0, tmp_path / "b.pcap", ASKER)  # the node is free for another one
    captures.end(0, ASKER)


@pytest.mark.skipif(not os.access(FULL, os.W_OK), reason="no /dev/full here")
@pytest.mark.parametrize("when", ["write", "flush", "close"])
def test_a_full_disk_is_told_of_whenever_it_shows(tmp_path: Path, when: str) -> None:
    (tmp_path / "a.pcap").symlink_to(FULL)
    captures = Captures()
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    for _ in range(1000 if when == "write" else 3):
        captures.files[0].add(bytes(100))
    if when == "flush":
        captures.flush()
    with pytest.raises(UsageProblem, match=r"a\.pcap does not have all packets: No space left on device"):
        captures.end(0, ASKER)


def test_somebody_elses_is_not_ended(tmp_path: Path) -> None:
    captures = Captures()
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    with pytest.raises(UsageProblem, match="somebody else"):
        captures.end(0, ASKER + 1)
    assert 0 in captures.files
    captures.close()
