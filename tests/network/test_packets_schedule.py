"""A whole schedule of the packet model, bit by bit. Another data plane has to give the same.

`schedule.json` has a network with its changes, nodes that are cut off for a while, what is offered, and when each piece
is handed over.
`TESTBED_WRITE_GOLDEN=1 pytest tests/network/test_packets_schedule.py` writes it anew.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.network.graph import Network, expand
from testbed.network.moment import moments
from testbed.network.packets import Packets
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

pytestmark = pytest.mark.usefixtures("_each_model")

WINDOW_S = 0.0007
CUTS = ((0.0307, 2, True), (0.0419, 2, False), (0.1717, 1, True), (0.1831, 1, False))
"""When, which rank, and whether it is cut off then or comes back."""
GOLDEN = Path(__file__).parent / "schedule.json"
SEED = 7
TOPOLOGY = """
services: {a: {replicas: 2}, b: {replicas: 2}}
bridges: [x]
links:
  - {from: a, to: x, latency: 1.7ms, rate: 11Mbps, jitter: 300us, loss: 3%, queue: 4ms}
  - {from: x, to: b, latency: 7.3ms, rate: 13Mbps, jitter: 1.9ms, loss: 5%, queue: 9ms, background: 2.1Mbps}
events:
  - {at: 50ms, link: [a, x], rate: 4.7Mbps}
  - {at: 80ms, link: [x, b], latency: 3.1ms, loss: 20%}
  - {at: 110ms, link: [x, b], state: down, for: 15ms}
  - {at: 130ms, partition: [[a.0, b.0], [a.1, b.1]], for: 12ms}
  - {at: 150ms, link: [a, x], rate: 17Mbps, jitter: 0ms}
"""


def offers() -> list[tuple[float, int, int, list[int]]]:
    """Ninety segments within 0.2 s, all ways, of one to five pieces."""
    return [(n * 0.0022, n % 4, (n + 1 + n % 3) % 4, [1500 - n * 13] * (1 + n % 5)) for n in range(90)]


def scheduled(topology: Topology, network: Network, *, patient: bool) -> dict[str, Any]:
    """What arrives and what is dropped; asked all the time, or only when something happens."""
    packets = Packets(network, seed=SEED, window_s=WINDOW_S)
    changes: list[tuple[float, Callable[[], None]]] = [
        (at_s, partial(packets.change, at_s, changed)) for at_s, _, changed in moments(topology, network, SEED)
    ]
    changes += [(at_s, partial(packets.cut if is_cut else packets.uncut, at_s, rank)) for at_s, rank, is_cut in CUTS]
    changes.sort(key=lambda change: change[0])
    found = []
    for at_s, origin, dest, sizes in offers():
        while changes and changes[0][0] <= at_s:
            changes.pop(0)[1]()
        if not patient:
            found += packets.advance(at_s)
        packets.offer(at_s, origin, dest, sizes)
    while (next_s := packets.next_s()) < math.inf:
        found += packets.advance(next_s)
    links = packets.snapshot().links
    return {
        "arrivals": sorted([each.segment, piece, each.due_s.hex()] for each in found for piece in each.pieces),
        "dropped": {
            f"{network.names[network.origin[link]]}>{network.names[network.dest[link]]}": [queue, loss, down]
            for link, queue, loss, down in zip(
                links.link.tolist(),
                links.dropped_queue.tolist(),
                links.dropped_loss.tolist(),
                links.dropped_down.tolist(),
                strict=True,
            )
        },
    }


def test_the_schedule_is_the_golden_one() -> None:
    topology = load_bytes(TOPOLOGY.encode(), Form.YAML, "schedule").require()
    network = expand(topology)
    found = scheduled(topology, network, patient=False)
    assert scheduled(topology, network, patient=True) == found
    whole = {
        "topology": TOPOLOGY,
        "seed": SEED,
        "window_s": WINDOW_S,
        "cuts": [list(each) for each in CUTS],
        "offers": [list(each) for each in offers()],
        **found,
    }
    if os.environ.get("TESTBED_WRITE_GOLDEN"):
        rows = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in whole.items())
        GOLDEN.write_text(f"{{\n{rows}\n}}\n")
    golden = json.loads(GOLDEN.read_text())
    assert golden == whole
    kinds = [sum(drops) for drops in zip(*golden["dropped"].values(), strict=True)]
    assert all(kinds), "every kind of drop is in it"
    assert len(golden["arrivals"]) > 80
