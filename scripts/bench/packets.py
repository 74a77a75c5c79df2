#!/usr/bin/env python3
"""How long the packet model takes: packets a second, and how many Gbit/s it could carry on one core of this machine.

Offers packets to a network as its nodes would and advances in steps, as the fabric does: at every offer, and when the
model says that something may arrive. Prints for every case the pieces carried, the time of this machine's clock (of the
process, so that others on the machine count little), segments per second, and gigabits per second of real time.
Needs the package installed (`./scripts/quickstart`).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from testbed.network.graph import Network, expand
from testbed.network.packets import Packets
from testbed.seeds import stream
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.load import load, load_bytes
from testbed.topologies.source import Form
from testbed.units import parse_rate_bps

LINE = """
services: {{a: {{replicas: {count}}}, b: {{replicas: {count}}}}}
bridges: [x, y]
links:
  - {{from: a, to: x, latency: 1ms, rate: {rate}{more}}}
  - {{from: x, to: y, latency: 5ms, rate: {core}{more}}}
  - {{from: y, to: b, latency: 1ms, rate: {rate}{more}}}
"""
SHARED = """
services: {{a: {{replicas: {count}}}, b: {{replicas: {count}}}}}
bridges: [x]
links:
  - {{from: a, to: x, latency: 1ms, rate: {rate}, shared: true}}
  - {{from: x, to: b, latency: 5ms, rate: {rate}, shared: true}}
"""


@dataclass(frozen=True)
class Case:
    """One line of the table: `load` is the part of the nodes' rate that they offer."""

    name: str
    pieces: int
    size_bytes: int
    offers: int
    count: int = 1
    rate: str = "1Gbps"
    core: str = "10Gbps"
    more: str = ""
    load: float = 0.9
    shape: str = LINE
    bundled: str = ""


CASES = (
    Case("small packets", 1, 60, 40_000),
    Case("small packets, jitter and loss", 1, 60, 40_000, more=", jitter: 100us, loss: 1%"),
    Case("super-segments, 10 Gbit/s", 45, 1460, 4_000, rate="10Gbps"),
    Case("super-segments, 1 Gbit/s", 45, 1460, 4_000),
    Case("super-segments, loss", 45, 1460, 4_000, more=", loss: 1%"),
    Case("super-segments, jitter", 45, 1460, 4_000, more=", jitter: 100us"),
    Case("super-segments, 16 to 16", 45, 1460, 4_000, count=16, rate="100Mbps", core="2Gbps"),
    Case(
        "super-segments, 16 to 16, jitter",
        45,
        1460,
        4_000,
        count=16,
        rate="100Mbps",
        core="2Gbps",
        more=", jitter: 100us",
    ),
    Case("super-segments, shared access", 45, 1460, 4_000, count=16, rate="1Gbps", load=0.06, shape=SHARED),
    Case("super-segments, wan256", 45, 1460, 4_000, rate="10Mbps", bundled="wan256.xml"),
)


def network_of(case: Case) -> Network:
    if case.bundled:
        return expand(load(str(next(each.path for each in BUNDLED if each.file_name == case.bundled))).require())
    text = case.shape.format(count=case.count, rate=case.rate, core=case.core, more=case.more)
    return expand(load_bytes(text.encode(), Form.YAML, case.name).require())


def run(case: Case) -> tuple[int, int, float, float]:
    """Pieces and bytes arrived, seconds taken, emulated seconds."""
    network = network_of(case)
    packets = Packets(network, seed=1)
    draw = stream(1, "bench")
    pairs = [(rank, case.count + rank) for rank in range(case.count)]
    if case.bundled:
        several = [draw.sample(range(network.node_count), 2) for _ in range(512)]
        pairs = [(origin, dest) for origin, dest in several]
    senders = network.node_count if case.bundled else case.count
    sizes = [case.size_bytes] * case.pieces
    gap_s = case.pieces * case.size_bytes * 8 / (parse_rate_bps(case.rate) * case.load) / senders
    offers = sorted((gap_s * (number + draw.random()), draw.choice(pairs)) for number in range(case.offers))
    arrived = 0
    started = time.process_time()
    for at_s, (origin, dest) in offers:
        while (next_s := packets.next_s()) <= at_s:
            for arrival in packets.advance(next_s):
                arrived += len(arrival.pieces)
        packets.offer(at_s, origin, dest, sizes)
    while (next_s := packets.next_s()) < float("inf"):
        for arrival in packets.advance(next_s):
            arrived += len(arrival.pieces)
    taken = time.process_time() - started
    return arrived, arrived * case.size_bytes, taken, offers[-1][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help="only those whose name contains this", default="")
    arguments = parser.parse_args()
    print("| case | pieces arrived | s | segments/s | Gbit/s | emulated s |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        if arguments.case in case.name:
            pieces, carried, taken, emulated = run(case)
            print(
                f"| {case.name} | {pieces} | {taken:.2f} | {case.offers / taken:.0f} "
                f"| {carried * 8 / taken / 1e9:.2f} | {emulated:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
