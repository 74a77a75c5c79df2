#!/usr/bin/env python3
"""What the fabric carries, beside a bare forwarder in C: scripts/bench/fabric.py [udp] [tcp] [flows] [idle].

udp:   200-byte datagrams over three hops without loss, sent faster than anything carries them: frames a second that
       reach the other node, and processor time of a frame.
tcp:   one connection over three hops without a limit: Gbit/s of payload, and processor time of a megabyte.
flows: N connections at once, each over a link of its own of 16 Mbit/s and 25 ms each way: the largest N of which every
       flow has what TCP can have of that, within 2 %.
idle:  round trips of an idle network over those asked for, and how late packets were.

The bare forwarder is `bare_forwarder.c`: it polls two TUN devices, reads and writes. `udp` and `tcp` measure all
carriers in turns, --times times, with a core for the carrier and the others for the traffic. Figures are medians;
`of_bare` is the ratio to the bare forwarder's. `busy` is the share of a core that the carrier used: where that is well
below 1, the traffic or other programs were the limit. `of_bare_cpu` is the ratio for the same processor time, which is
the same on an otherwise idle machine, and still means something on another.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from emulated_nodes import BARE, Role, Traffic, carried, compiled
from round_trips import round_trips
from tables import Row, as_text, load

from testbed.engines.fabric.health import Health
from testbed.engines.fabric.planes import PLANES
from testbed.engines.namespace import TcpSettings
from testbed.plan.addresses import address
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

THREE_HOPS = """
services: {n: {replicas: 2}}
bridges: [x, y]
links:
  - {from: n.0, to: x, latency: 0.02ms, rate: unlimited}
  - {from: x, to: y, latency: 0.02ms, rate: unlimited}
  - {from: y, to: n.1, latency: 0.02ms, rate: unlimited}
"""
UDP_BYTES = 200
FLOW_BPS, FLOW_MS = 16e6, 25
PAYLOAD = 1448 / 1500
"""Of a full packet of TCP, with its timestamps: the share of a link's rate that a flow can have."""
WITHIN = 0.02
COUNTS = (8, 16, 32, 64, 128, 256, 512)
TRIES = 2
"""Of a number of flows, before it counts as too many: others may have used the machine."""
SETTLE_S, WINDOW_S = 0.7, 2.0
FLOWS_SETTLE_S, FLOWS_WINDOW_S = 4.0, 5.0
AFTER_S = 0.5
"""Senders go on for so long, so that all is counted while traffic flows."""


def between_two(carrier: str, roles: Sequence[Role]) -> Traffic:
    """One window of traffic over three hops."""
    return carried_traffic(carrier, _loaded(THREE_HOPS), "cubic", roles, SETTLE_S, WINDOW_S, apart=True)


def carried_traffic(
    carrier: str,
    topology: Topology,
    congestion: str,
    roles: Sequence[Role],
    settle_s: float,
    window_s: float,
    *,
    apart: bool,
) -> Traffic:
    """One window of traffic between the topology's nodes, each in its role; `apart`: the carrier has its own core."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        program = compiled("traffic", folder)
        with carried(carrier, topology, TcpSettings(congestion=congestion), folder) as network:
            return network.run(program, roles, settle_s, window_s, apart=apart)


def _loaded(text: str) -> Topology:
    return load_bytes(text.encode(), Form.YAML, "bench").require()


def pouring(dest: str) -> Role:
    """The sender of one connection."""
    return lambda start_s, _, until_s: ("pour", dest, str(start_s), str(until_s + AFTER_S))


def draining(own: str) -> Role:
    """Its receiver."""
    return lambda _, from_s, until_s: ("drain", own, str(from_s), str(until_s))


def udp_once(carrier: str) -> Row:
    dest = address(1)
    found = between_two(
        carrier,
        (
            lambda start_s, _, until_s: ("flood", dest, str(start_s), str(until_s + AFTER_S), str(UDP_BYTES)),
            lambda _, __, until_s: ("sink", dest, str(until_s + AFTER_S)),
        ),
    )
    return {
        "frames_per_s": found.frames.arrived / found.seconds,
        "us_per_frame": found.carrier_s / max(1, found.frames.arrived) * 1e6,
        "offered_per_s": (found.frames.sent + found.frames.lost) / found.seconds,
        "busy": found.carrier_s / found.seconds,
    }


def tcp_once(carrier: str) -> Row:
    found = between_two(carrier, (pouring(address(1)), draining(address(1))))
    return {
        "gbit_per_s": found.results[1] * 8 / found.seconds / 1e9,
        "ms_per_mb": found.carrier_s / max(1, found.results[1]) * 1e9,
        "us_per_frame": found.carrier_s / max(1, found.frames.arrived) * 1e6,
        "busy": found.carrier_s / found.seconds,
    }


def in_turns(
    what: str, once: Callable[[str], Row], carries: str, costs: str, planes: Sequence[str], times: int
) -> Iterator[Row]:
    """A row for every carrier, with its ratios to the bare forwarder: of what it carries, and of what that costs."""
    carriers = (BARE, *planes)
    found: dict[str, list[Row]] = {carrier: [] for carrier in carriers}
    for number in range(times):
        for carrier in carriers:
            row = once(carrier)
            found[carrier].append(row)
            tell(f"{what} {number + 1}/{times} {carrier}: {as_text([row], 'table').splitlines()[1]}")
    for carrier, rows in found.items():
        middles: Row = {name: middle(rows, name) for name in rows[0]}
        of_bare = middle(rows, carries) / middle(found[BARE], carries)
        of_bare_cpu = middle(found[BARE], costs) / middle(rows, costs)
        yield {"what": what, "carrier": carrier, **middles, "of_bare": of_bare, "of_bare_cpu": of_bare_cpu}


def middle(rows: Sequence[Row], key: str) -> float:
    return statistics.median(float(row[key] or 0) for row in rows)


@dataclass(frozen=True)
class Flows:
    """What a number of connections had."""

    shares: Sequence[float]
    """Of what TCP can have of the link, by flow."""
    traffic: Traffic
    health: Health

    @property
    def are_right(self) -> bool:
        return all(abs(share - 1) <= WITHIN for share in self.shares)


def flows_topology(count: int) -> str:
    links = [
        {"from": f"n.{2 * at}", "to": f"n.{2 * at + 1}", "latency": f"{FLOW_MS}ms", "rate": f"{FLOW_BPS:.0f}bps"}
        for at in range(count)
    ]
    return yaml.safe_dump({"services": {"n": {"replicas": 2 * count}}, "links": links})


def flows_once(plane: str, count: int, congestion: str) -> Flows:
    roles = [role for at in range(count) for role in (pouring(address(2 * at + 1)), draining(address(2 * at + 1)))]
    found = carried_traffic(
        plane, _loaded(flows_topology(count)), congestion, roles, FLOWS_SETTLE_S, FLOWS_WINDOW_S, apart=False
    )
    asked = FLOW_BPS * PAYLOAD / 8 * FLOWS_WINDOW_S
    assert found.health is not None, "a fabric carries them"
    return Flows([found.results[2 * at + 1] / asked for at in range(count)], found, found.health)


def flows_row(plane: str, count: int, found: Flows) -> Row:
    traffic, health = found.traffic, found.health
    return {
        "what": "flows",
        "carrier": plane,
        "flows": count,
        "right": sum(abs(share - 1) <= WITHIN for share in found.shares),
        "least": round(min(found.shares), 4),
        "median": round(statistics.median(found.shares), 4),
        "most": round(max(found.shares), 4),
        "frames_per_s": traffic.frames.sent / traffic.seconds,
        "us_per_frame": traffic.carrier_s / max(1, traffic.frames.sent) * 1e6,
        "busy": traffic.carrier_s / traffic.seconds,
        "late_p50_ms": health.lateness.p50_ms,
        "late_p99_ms": health.lateness.p99_ms,
        "wait_p99_ms": health.device_waits.p99_ms,
    }


def most_flows(plane: str, counts: Sequence[int], congestion: str) -> list[Row]:
    """A row for every number of flows tried, and one with the largest that was right."""
    rows: list[Row] = []

    def are_right(count: int) -> bool:
        found = _tried(plane, count, congestion)
        rows.append(flows_row(plane, count, found))
        return found.are_right

    right, wrong = largest(counts, are_right)
    return [*rows, {"what": "most flows", "carrier": plane, "flows": right, "too_many": wrong}]


def largest(counts: Sequence[int], holds: Callable[[int], bool]) -> tuple[int, int | None]:
    """The largest number that holds, to a quarter, and the least that was tried and does not.

    Tries the numbers in turn, then some between the last that holds and the first that does not.
    """
    right, wrong = 0, None
    for count in counts:
        if not holds(count):
            wrong = count
            break
        right = count
    while right and wrong is not None and wrong - right > max(1, right // 4):
        count = (right + wrong) // 2
        right, wrong = (count, wrong) if holds(count) else (right, count)
    return right, wrong


def _tried(plane: str, count: int, congestion: str) -> Flows:
    """The first try in which all flows are right, or the last one."""
    for _ in range(TRIES):
        found = flows_once(plane, count, congestion)
        tell(f"{count} flows: {as_text([flows_row(plane, count, found)], 'table').splitlines()[1]}")
        if found.are_right:
            break
    return found


def tell(words: str) -> None:
    """To the terminal: how far it is."""
    print(words, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=["udp", "tcp", "flows", "idle", []], help="default: all")
    parser.add_argument("--plane", choices=[*PLANES, "both"], default="both", help="default: all that there are")
    parser.add_argument("--times", type=int, default=5, help="of `udp` and `tcp`")
    parser.add_argument("--flows", type=int, nargs="+", default=COUNTS, help="numbers of flows to try, rising")
    parser.add_argument("--congestion", choices=["cubic", "reno"], default="cubic", help="of `flows`")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    given = parser.parse_args()
    which = given.which or ["udp", "tcp", "flows", "idle"]
    planes = [*PLANES] if given.plane == "both" else [given.plane]
    form = "json" if given.json else "table"
    tell(load())
    benches: dict[str, Callable[[], Iterator[Row]]] = {
        "udp": lambda: in_turns("udp", udp_once, "frames_per_s", "us_per_frame", planes, given.times),
        "tcp": lambda: in_turns("tcp", tcp_once, "gbit_per_s", "ms_per_mb", planes, given.times),
        "flows": lambda: (row for plane in planes for row in most_flows(plane, given.flows, given.congestion)),
        "idle": lambda: (row for plane in planes for row in round_trips(plane)),
    }
    tables = {name: [*benches[name]()] for name in benches if name in which}
    rows = [row for each in tables.values() for row in each]
    print(as_text(rows, form) if given.json else "\n\n".join(as_text(each, form) for each in tables.values()))
    tell(load())


if __name__ == "__main__":
    main()
