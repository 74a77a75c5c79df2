"""How exactly round trips of an idle network are those that were asked for.

One fabric, pairs of nodes with paths of different lengths, probes 40 to 60 ms apart, then 8 to 12 ms: milliseconds more
than asked for, and how late the fabric wrote packets.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import msgspec
import yaml
from tables import Row

from testbed.engines.fabric.health import Health
from testbed.engines.fabric.reports import HEALTH
from testbed.engines.namespace import TcpSettings
from testbed.network.graph import expand
from testbed.protocol.fabric import Begin
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.verify.network import Running, running_network
from testbed.verify.pairs import choose_pairs
from testbed.verify.prepare import config_for
from testbed.verify.probes import PROBE_BYTES
from testbed.verify.sizing import EchoNeed
from testbed.verify.traffic import echo_all
from testbed.verify.work_folder import make_work_folder

ONE_WAY_MS = (0.2, 0.5, 5, 10, 25, 50)
GAPS_S = ((0.04, 0.06), (0.008, 0.012))
PROBES = 200


def round_trips(plane: str) -> Iterator[Row]:
    """A row for every path and distance of probes; `more` is beyond what was asked for."""
    links = [
        {"from": f"n.{2 * at}", "to": f"n.{2 * at + 1}", "latency": f"{ms}ms", "rate": "20Mbps"}
        for at, ms in enumerate(ONE_WAY_MS)
    ]
    document = {"services": {"n": {"replicas": 2 * len(links)}}, "links": links}
    topology = load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "idle").require()
    pairs = sorted(choose_pairs(expand(topology), len(links), seed=1), key=lambda pair: pair.origin)
    ranks = {rank for pair in pairs for rank in (pair.origin, pair.dest)}
    with make_work_folder() as work:
        config = msgspec.structs.replace(config_for(topology, 1, work.folder), data_plane=plane)
        with running_network(config, ranks, work, "probes", TcpSettings()) as running:
            running.conversation.ask(partial(Begin, monotonic_s=time.monotonic()))
            for least_s, most_s in GAPS_S:
                need = EchoNeed(PROBES, least_s, most_s, 1.0)
                found = echo_all([(pair, need) for pair in pairs], running)
                health = _health(running)
                for pair, (_, echoed) in zip(pairs, found, strict=True):
                    asked_s = pair.probe_round_trip_s(PROBE_BYTES)
                    more_ms = sorted((each - asked_s) * 1e3 for each in echoed.round_trips_s)
                    yield {
                        "plane": plane,
                        "asked_ms": round(asked_s * 1e3, 2),
                        "probes_every_ms": round(most_s * 1e3),
                        "more_least_ms": round(more_ms[0], 3),
                        "more_p50_ms": round(statistics.median(more_ms), 3),
                        "more_p90_ms": round(more_ms[int(0.9 * len(more_ms))], 3),
                        "more_p99_ms": round(more_ms[int(0.99 * len(more_ms))], 3),
                        "late_p50_ms": health.lateness.p50_ms,
                        "late_p99_ms": health.lateness.p99_ms,
                    }


def _health(running: Running) -> Health:
    """Of the last full second, since the network began."""
    return msgspec.json.decode((running.engine / HEALTH).read_bytes(), type=Health)
