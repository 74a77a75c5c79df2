"""What 16 learners wrote to their devices in a real run, carried by both data planes: the same packets, and times.

`trace_recorder` has recorded it.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from testbed.engines.fabric.deliveries import Wait
from testbed.engines.fabric.native_plane.forwarder import NativeForwarder
from testbed.engines.fabric.python_plane.forwarder import Forwarder
from testbed.topologies.bundled import find_bundled
from testbed.topologies.source import Form
from tests.engines.planes import setup
from tests.engines.trace_recorder import FRAMES, Frame, load

TRACE = Path(__file__).with_name("wan16.npz")
Written = tuple[int, float, bytes, int, int]


def carried(made: Forwarder | NativeForwarder, frames: list[Frame]) -> tuple[list[Written], list[Wait | None]]:
    """What is written to whom, and when; and what frames have lost in their devices."""
    written: list[Written] = []
    waits = []

    def advance(to_s: float) -> None:
        written.extend(
            (each.dest, each.due_s, b"".join(each.data), each.packets, each.size_bytes) for each in made.advance(to_s)
        )

    for frame, following in pairwise([*frames, frames[-1]._replace(at_s=frames[-1].at_s + 10.0)]):
        waits.append(made.offer(frame.at_s, frame.origin, frame.data, frame.since_s))
        while (next_s := made.packets.next_s()) < following.at_s:
            advance(next_s)
        advance(following.at_s)
        made.release()
    return written, waits


@pytest.mark.parametrize("is_lossy", [False, True])
def test_both_data_planes_write_the_same_bytes_at_the_same_times(is_lossy: bool) -> None:
    bundled = find_bundled("wan16")
    assert bundled is not None
    given = setup(bundled.read_text(), form=Form.XML)
    network = given.network
    if is_lossy:
        count = network.link_count
        network = replace(network, loss=np.full(count, 0.01), jitter_ms=network.latency_ms / 20)
    frames = load(TRACE)
    assert len(frames) == FRAMES
    both = [
        make(network, given.addresses, seed=7, mtu=given.mtu, time_scale=2.0) for make in (Forwarder, NativeForwarder)
    ]
    (written, waits), (theirs, their_waits) = (carried(made, frames) for made in both)
    assert written == theirs
    assert waits == their_waits
    assert len(written) > FRAMES
    one, other = both
    assert one.unfit == other.unfit
    assert (one.held, one.held_bytes) == (other.held, other.held_bytes) == (0, 0)
    counts = one.packets.snapshot(), other.packets.snapshot()
    for mine, its in zip(*((*astuple(each.links), *astuple(each.pairs)) for each in counts), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12)  # sums of waits are formed in parts
