"""A capture that cannot go on says so when it is over; the fabric goes on whatever happens to the file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from testbed.engines.fabric.captures import Captures
from testbed.engines.fabric.data_plane import DataPlane
from testbed.engines.tun import VNET_HEADER_BYTES
from testbed.errors import UsageProblem
from tests.engines.planes import MakePlane, attached
from tests.engines.world import pair

HEADER_BYTES, RECORD_BYTES = 24, 16
FULL = Path("/dev/full")
ASKER = 7


@pytest.fixture
def plane(make: MakePlane) -> DataPlane:
    return make(pair(), most_captured_bytes=3 * (100 + RECORD_BYTES))


@pytest.fixture
def roomy(make: MakePlane) -> DataPlane:
    return make(pair())


def add(plane: DataPlane, packets: int) -> None:
    """So many packets of 100 bytes are read from the first node."""
    with attached(plane, 0) as node:
        for _ in range(packets):
            node.send(bytes(VNET_HEADER_BYTES + 100))
            plane.run(time.monotonic())
        plane.detach(0)


def test_what_fits_is_there_and_nothing_is_said(plane: DataPlane, tmp_path: Path) -> None:
    captures = Captures(plane)
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    add(plane, 3)
    captures.end(0, ASKER)
    assert (tmp_path / "a.pcap").stat().st_size == HEADER_BYTES + 3 * (100 + RECORD_BYTES)
    captures.end(0, ASKER)  # again, when there is none


def test_one_that_has_become_too_large_says_so(plane: DataPlane, tmp_path: Path) -> None:
    captures = Captures(plane)
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    add(plane, 5)
    with pytest.raises(UsageProblem, match=r"a\.pcap does not have all packets: it has 348 bytes, the most"):
        captures.end(0, ASKER)
    assert (tmp_path / "a.pcap").stat().st_size == HEADER_BYTES + 3 * (100 + RECORD_BYTES)
    captures.begin(0, tmp_path / "b.pcap", ASKER)  # the node is free for another one
    captures.end(0, ASKER)


@pytest.mark.skipif(not os.access(FULL, os.W_OK), reason="no /dev/full here")
@pytest.mark.parametrize("when", ["write", "flush", "close"])
def test_a_full_disk_is_told_of_whenever_it_shows(roomy: DataPlane, tmp_path: Path, when: str) -> None:
    (tmp_path / "a.pcap").symlink_to(FULL)
    captures = Captures(roomy)
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    add(roomy, 1000 if when == "write" else 3)
    if when == "flush":
        roomy.counters()
    with pytest.raises(UsageProblem, match=r"a\.pcap does not have all packets: No space left on device"):
        captures.end(0, ASKER)


def test_a_capture_belongs_to_the_connection_that_has_asked_for_it(plane: DataPlane, tmp_path: Path) -> None:
    captures = Captures(plane)
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    with pytest.raises(UsageProblem, match="another command"):
        captures.end(0, ASKER + 1)
    captures.forget(ASKER + 1)
    with pytest.raises(UsageProblem, match="already"):
        captures.begin(0, tmp_path / "b.pcap", ASKER + 1)
    captures.forget(ASKER)
    captures.begin(0, tmp_path / "b.pcap", ASKER + 1)


def test_a_node_and_a_file_are_captured_once(plane: DataPlane, tmp_path: Path) -> None:
    captures = Captures(plane)
    captures.begin(0, tmp_path / "a.pcap", ASKER)
    with pytest.raises(UsageProblem, match="already"):
        captures.begin(0, tmp_path / "b.pcap", ASKER)
    (tmp_path / "c.pcap").symlink_to("a.pcap")
    with pytest.raises(UsageProblem, match="another node's packets"):
        captures.begin(1, tmp_path / "c.pcap", ASKER)
    with pytest.raises(UsageProblem, match="cannot write"):
        captures.begin(1, tmp_path, ASKER)
    captures.begin(1, tmp_path / "b.pcap", ASKER)
