#!/usr/bin/env python3
"""How exactly round trips of an idle network are those that were asked for: scripts/bench/idle.py [--times 3].

One fabric, five pairs of nodes with paths of different lengths, probes 40 to 60 ms apart, then 8 to 12 ms: milliseconds
more than asked for, the least, the median and the ninth of ten. A figure means something on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

import yaml

from testbed.engines.namespace import TcpSettings
from testbed.network.graph import expand
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.verify.network import running_network
from testbed.verify.pairs import choose_pairs
from testbed.verify.prepare import config_for
from testbed.verify.probes import PROBE_BYTES
from testbed.verify.sizing import EchoNeed
from testbed.verify.traffic import echo_all
from testbed.verify.work_folder import make_work_folder

ONE_WAY_MS = (0.5, 5, 10, 25, 50)
GAPS_S = ((0.04, 0.06), (0.008, 0.012))
PROBES = 200


def found() -> Iterator[str]:
    """A line for every path and distance of probes."""
    links = [
        {"from": f"n.{2 * at}", "to": f"n.{2 * at + 1}", "latency": f"{ms}ms", "rate": "20Mbps"}
        for at, ms in enumerate(ONE_WAY_MS)
    ]
    document = {"services": {"n": {"replicas": 2 * len(links)}}, "links": links}
    topology = load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "idle").require()
    pairs = sorted(choose_pairs(expand(topology), len(links), seed=1), key=lambda pair: pair.origin)
    ranks = {rank for pair in pairs for rank in (pair.origin, pair.dest)}
    with make_work_folder() as work:
        config = config_for(topology, 1, work.folder)
        with running_network(config, ranks, work, "probes", TcpSettings()) as running:
            for least_s, most_s in GAPS_S:
                need = EchoNeed(PROBES, least_s, most_s, 1.0)
                for pair, (_, echoed) in zip(pairs, echo_all([(pair, need) for pair in pairs], running), strict=True):
                    asked_s = pair.probe_round_trip_s(PROBE_BYTES)
                    more_ms = sorted((each - asked_s) * 1e3 for each in echoed.round_trips_s)
                    ninth = more_ms[int(0.9 * len(more_ms))]
                    yield (
                        f"{asked_s * 1e3:7.2f} ms, probes every {most_s * 1e3:.0f} ms: "
                        f"{more_ms[0]:+.3f} {statistics.median(more_ms):+.3f} {ninth:+.3f} ms"
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1)
    for _ in range(parser.parse_args().times):
        for line in found():
            print(line, flush=True)


if __name__ == "__main__":
    main()
