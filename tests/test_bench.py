"""What benches measure with: their counts, their search, and their traffic between nodes. No figure fails a test."""

from __future__ import annotations

import shutil
import struct

import pytest
from captured_frames import FrameCounts, packets_of
from emulated_nodes import BARE, COMPILER, carried, compiled
from fabric import THREE_HOPS, draining, largest, pouring
from tables import Row, as_markdown, as_text

from testbed.engines.namespace import TcpSettings
from testbed.plan.addresses import address
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form

HEADERS = 52
"""Of IPv4 and of TCP with timestamps."""
ACK, FIN_ACK = 0x10, 0x11


def tcp(payload: int, flags: int = ACK) -> bytes:
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, HEADERS + payload, 0, 0, 64, 6, 0, bytes(4), bytes(4))
    return ip + struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x80, flags, 5, 6, 0) + bytes(12 + payload)


def counted(*packets: bytes) -> FrameCounts:
    counts = FrameCounts()
    for packet in packets:
        counts.add(packet)
    return counts


@pytest.mark.parametrize(("payload", "segments"), [(1, 1), (1448, 1), (1449, 2), (2 * 1448, 2), (44 * 1448 + 1, 45)])
def test_a_frame_of_data_is_so_many_segments(payload: int, segments: int) -> None:
    assert counted(tcp(payload)) == FrameCounts(frames=1, data_frames=1, segments=segments, pure_acks=0)


def test_what_carries_nothing_and_ends_nothing_is_a_pure_acknowledgement() -> None:
    udp = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 48, 0, 0, 64, 17, 0, bytes(4), bytes(4)) + bytes(28)
    assert counted(tcp(0), tcp(0, FIN_ACK), udp) == FrameCounts(frames=2, data_frames=0, segments=0, pure_acks=1)


def test_a_capture_gives_its_packets_without_a_torn_one() -> None:
    records = b"".join(struct.pack("=IIII", 0, 0, len(each), len(each)) + each for each in (tcp(10), tcp(20)))
    assert [*packets_of(bytes(24) + records)] == [tcp(10), tcp(20)]
    assert [*packets_of(bytes(24) + records[:-1])] == [tcp(10)]
    assert [*packets_of(b"")] == []


@pytest.mark.parametrize(
    ("most", "found"),
    [(7, (0, 8)), (8, (8, 10)), (23, (20, 24)), (64, (64, None)), (63, (56, 64)), (1000, (64, None))],
)
def test_the_largest_number_that_holds_is_found_to_a_quarter(most: int, found: tuple[int, int | None]) -> None:
    assert largest((8, 16, 32, 64), lambda count: count <= most) == found


def test_rows_with_different_names_are_one_table() -> None:
    rows: list[Row] = [{"a": 1, "b": 0.5}, {"a": "x", "c": None}]
    assert as_text(rows, "table").splitlines() == ["a    b  c", "1  0.5", "x"]
    assert as_markdown(rows).splitlines() == ["| a | b | c |", "| --- | --- | --- |", "| 1 | 0.5 |  |", "| x |  |  |"]
    assert [line.split() for line in as_text(rows, "list").splitlines()] == [["a", "1", "x"], ["b", "0.5"], ["c"]]


@pytest.mark.needs_network
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="there is no C compiler here")
@pytest.mark.parametrize("carrier", [BARE, "python"])
def test_traffic_crosses_whatever_carries_it(carrier: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("b")
    topology = load_bytes(THREE_HOPS.encode(), Form.YAML, "test").require()
    receiver = address(1)
    with carried(carrier, topology, TcpSettings(), folder) as network:
        found = network.run(compiled("traffic", folder), (pouring(receiver), draining(receiver)), 0.2, 0.3, apart=False)
    assert found.results[1] > 100_000
    assert found.frames.arrived > 10
    assert found.carrier_s > 0
    assert (found.health is None) == (carrier == BARE)
