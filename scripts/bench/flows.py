#!/usr/bin/env python3
"""How long the fluid model of the network takes: rounds of decentralized learning without the learning.

Every node sends its model to its neighbours on an overlay, waits until theirs are there, and begins the next round.
Prints for every case the messages, the time of this machine's clock, messages per second, steps, and the emulated time
of a round. Needs the package installed (`./scripts/quickstart`).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import networkx as nx

from testbed.network.flows import Delivered, Flows
from testbed.network.graph import Network, expand
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.load import load, load_bytes
from testbed.topologies.source import Form


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    topology: str
    degree: int
    size_bytes: int
    rounds: int


CASES = (
    Case("wan16", "wan16.xml", 5, 335_000, 50),
    Case("wan64", "wan64.xml", 5, 335_000, 50),
    Case("wan256", "wan256.xml", 5, 1_000_000, 100),
    Case("wan256-small", "wan256.xml", 5, 100, 100),
    Case("star64-full", "star 64", 63, 335_000, 5),
    Case("wan1024", "wan1024.xml", 5, 335_000, 10),
)


def network_of(name: str) -> Network:
    """A bundled topology, or for `star N` a star of N nodes."""
    if name.startswith("star "):
        text = f"services: {{n: {{replicas: {name[5:]}}}}}\nbridges: [hub]\n"
        text += "links:\n  - {from: n, to: hub, latency: 5ms, rate: 100Mbps}\n"
        return expand(load_bytes(text.encode(), Form.YAML, name).require())
    path = next(bundled.path for bundled in BUNDLED if bundled.file_name == name)
    return expand(load(str(path)).require())


def run(case: Case, seed: int) -> tuple[int, int, float, float]:
    """Messages, steps, seconds taken, seconds emulated."""
    started = time.perf_counter()
    network = network_of(case.topology)
    count = network.node_count
    overlay = nx.random_regular_graph(case.degree, count, seed=seed)
    neighbours = [sorted(overlay[rank]) for rank in range(count)]
    flows = Flows(network, seed=seed)
    done = [0] * count
    arrived = [[0] * (case.rounds + 1) for _ in range(count)]
    messages = steps = 0

    def begin(rank: int) -> None:
        nonlocal messages
        for neighbour in neighbours[rank]:
            flows.send(rank, neighbour, case.size_bytes)
            messages += 1

    for rank in range(count):
        begin(rank)
    while min(done) < case.rounds:
        steps += 1
        for news in flows.advance(flows.next_s()):
            if not isinstance(news, Delivered):
                continue
            rank = news.transfer.dest
            arrived[rank][news.transfer.number] += 1
            while done[rank] < case.rounds and arrived[rank][done[rank]] == len(neighbours[rank]):
                done[rank] += 1
                if done[rank] < case.rounds:
                    begin(rank)
    return messages, steps, time.perf_counter() - started, flows.now_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=[case.name for case in CASES], help="which of the cases")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("| case | messages | s | messages/s | advances | emulated s per round |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        if case.name in arguments.cases:
            messages, steps, seconds, emulated = run(case, arguments.seed)
            print(
                f"| {case.name} | {messages} | {seconds:.2f} | {messages / seconds:.0f} | {steps} "
                f"| {emulated / case.rounds:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
