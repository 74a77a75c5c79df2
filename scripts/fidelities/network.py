"""What the fabric delivers of what is asked for: delay, jitter, loss and rate between real sockets.

Takes a data plane, gives measurements and tables; brings up networks of pairs of nodes, each with a link of its own,
and leaves nothing behind. Delays and losses are those of `testbed verify`'s probes, rates those of benches' traffic.
Rates are of IP packets, headers included, as a link's rate is.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import yaml
from emulated_nodes import Role, Traffic
from fabric import AFTER_S, PAYLOAD, carried_traffic, draining, pouring
from tables import Row, as_markdown

from testbed.engines.namespace import TcpSettings
from testbed.network.graph import expand
from testbed.plan.addresses import address
from testbed.protocol.fabric import Begin
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from testbed.verify.network import Running, running_network
from testbed.verify.pairs import Pair, choose_pairs
from testbed.verify.prepare import config_for
from testbed.verify.probes import PROBE_BYTES
from testbed.verify.sizing import LOSS_PROBE_BYTES, EchoNeed, StreamNeed, Task
from testbed.verify.traffic import TcpFlow, echo_all, stream_all
from testbed.verify.work_folder import make_work_folder

DELAYS_MS = (0.5, 1, 5, 25, 100)
JITTERED_MS, JITTER_MS = 5.0, 1.0
"""Latency of the path with jitter, and its standard deviation."""
LOSSES = (0.001, 0.01, 0.05)
RATES_MBPS = (1, 10, 100, 1000)
BUSY_FLOWS, BUSY_MBPS = 4, 25
"""What the same fabric carries meanwhile, over other links: TCP connections, each at that rate."""
IDLE, BUSY = "idle", "busy"
PROBES, BUSY_PROBES = 2000, 1000
_GAPS_S = (0.010, 0.012)
"""Between probes: ten times the jitter, so that none catches up with another."""
_SETTLE_S = 2.0
_PATIENCE_S = 1.0
LOSS_PROBES, _LOSS_PROBES_PER_S = 90_000, 3_000
"""Of every path with loss."""
_CONFIDENCE = 1.96
"""Standard errors on either side: 95 %."""
RATE_LATENCY_MS = 5
_OFFERED = 1.25
"""Times the link's rate."""
_DATAGRAM_BYTES = 1500
_RATE_SETTLE_S, _RATE_WINDOW_S = 2.0, 3.0


@dataclass(frozen=True)
class Found:
    """One property of one path."""

    plane: str
    condition: str
    what: str
    asked: str
    figures: dict[str, float]
    told: str
    """The figures, as a table has them."""


@dataclass(frozen=True)
class Fidelity:
    """What one data plane delivered."""

    plane: str
    found: tuple[Found, ...]
    overloaded: tuple[str, ...]
    """Why the fabric calls its own network late, in any of the measurements."""


@dataclass(frozen=True)
class ProbedPairs:
    """The pairs of the probed topology, in its order."""

    delays: Sequence[Pair]
    """The last one has jitter."""
    lossy: Sequence[Pair]
    busy: Sequence[Pair]


def measure(plane: str) -> Fidelity:
    """All figures of a data plane, in about two minutes; raises PreflightRefused where this machine denies networks."""
    found: list[Found] = []
    overloaded: list[str] = []
    topology, pairs = probed_topology(), probed_pairs()
    with make_work_folder() as work:
        config = msgspec.structs.replace(config_for(topology, 1, work.folder), data_plane=plane)
        ranks = range(len(topology.nodes))
        with running_network(config, ranks, work, "probes", TcpSettings()) as running:
            running.conversation.ask(partial(Begin, monotonic_s=time.monotonic()))
            found += _delays(plane, IDLE, pairs.delays, PROBES, (), running)
            found += _losses(plane, pairs.lossy, running)
            found += _delays(plane, BUSY, pairs.delays, BUSY_PROBES, pairs.busy, running)
            overloaded += running.overloaded()
    for mbps in RATES_MBPS:
        for found_rate, traffic in (_udp_rate(plane, mbps), _tcp_rate(plane, mbps)):
            found.append(found_rate)
            overloaded += traffic.health.overloaded if traffic.health else ()
    return Fidelity(plane, tuple(found), tuple(dict.fromkeys(overloaded)))


def probed_topology() -> Topology:
    """Pairs of nodes, in this order: of every delay, with jitter, of every loss, and those that are busy."""
    kinds: dict[str, list[dict[str, object]]] = {
        "delay": [{"latency": f"{ms}ms", "rate": "1Gbps"} for ms in DELAYS_MS],
        "jitter": [{"latency": f"{JITTERED_MS}ms", "jitter": f"{JITTER_MS}ms", "rate": "1Gbps"}],
        "loss": [{"latency": "5ms", "rate": "1Gbps", "loss": loss} for loss in LOSSES],
        "busy": [{"latency": "10ms", "rate": f"{BUSY_MBPS}Mbps"}] * BUSY_FLOWS,
    }
    services = {kind: {"replicas": 2 * len(links)} for kind, links in kinds.items()}
    links = [
        {"from": f"{kind}.{2 * at}", "to": f"{kind}.{2 * at + 1}", **link}
        for kind, links in kinds.items()
        for at, link in enumerate(links)
    ]
    return _loaded({"services": services, "links": links})


def probed_pairs() -> ProbedPairs:
    network = expand(probed_topology())
    pairs = sorted(choose_pairs(network, network.node_count // 2, seed=1), key=lambda pair: pair.origin)
    delays = len(DELAYS_MS) + 1
    return ProbedPairs(pairs[:delays], pairs[delays:-BUSY_FLOWS], pairs[-BUSY_FLOWS:])


def _loaded(document: dict[str, object]) -> Topology:
    return load_bytes(yaml.safe_dump(document, sort_keys=False).encode(), Form.YAML, "fidelity").require()


def _delays(
    plane: str, condition: str, pairs: Sequence[Pair], probes: int, busy: Sequence[Pair], running: Running
) -> Iterator[Found]:
    """One way, from leaving the sender to reaching the receiver's kernel; while the busy pairs have TCP flows."""
    need = EchoNeed(probes, *_GAPS_S, _PATIENCE_S)
    flows = [TcpFlow(pair, _SETTLE_S, _SETTLE_S + need.seconds) for pair in busy]
    answers = echo_all([(pair, need) for pair in pairs], running, flows, _SETTLE_S if flows else 0.0)
    for pair, (_, echoed) in zip(pairs, answers, strict=True):
        ms = sorted(each * 1e3 for each in echoed.there_s)
        figures = {
            "asked_ms": (pair.there.latency_s + pair.there.sending_s(PROBE_BYTES)) * 1e3,
            "mean_ms": statistics.fmean(ms),
            "p50_ms": statistics.median(ms),
            "p99_ms": ms[int(0.99 * len(ms))],
            "deviation_ms": statistics.stdev(ms),
            "probes": len(ms),
        }
        asked = f"{pair.there.latency_s * 1e3:g} ms"
        asked += f", σ {pair.there.jitter_s * 1e3:g} ms" if pair.there.jitter_s else ""
        told = f"{figures['mean_ms']:.3f} / {figures['p99_ms']:.3f} / {figures['deviation_ms']:.3f}"
        yield Found(plane, condition, "delay", asked, figures, told)


def _losses(plane: str, pairs: Sequence[Pair], running: Running) -> Iterator[Found]:
    need = StreamNeed(LOSS_PROBES, _LOSS_PROBES_PER_S, LOSS_PROBE_BYTES, 0.0, _PATIENCE_S)
    works = [Task((pair, need), pair.links, need.seconds, 0.0) for pair in pairs]
    for pair, _, sent, received in stream_all(works, running):
        lost = sent.packets - received.packets - received.overflowed
        least, most = confidence(lost, sent.packets)
        figures = {"asked": pair.there.loss, "lost": lost, "sent": sent.packets, "least": least, "most": most}
        told = f"{lost / sent.packets:.3%} ({least:.3%} to {most:.3%})"
        yield Found(plane, IDLE, "loss", f"{pair.there.loss:g}", figures, told)


def confidence(count: int, of: int) -> tuple[float, float]:
    """Wilson's interval of a share: where it is with a probability of 95 %."""
    share, square = count / of, _CONFIDENCE**2
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = _CONFIDENCE / (1 + square / of) * math.sqrt(share * (1 - share) / of + square / (4 * of**2))
    return middle - half, middle + half


def _udp_rate(plane: str, mbps: float) -> tuple[Found, Traffic]:
    """What arrives of more datagrams than fit."""
    dest = address(1)
    offered_bps = f"{_OFFERED * mbps * 1e6:.0f}"
    size = str(_DATAGRAM_BYTES)
    roles: list[Role] = [
        lambda start_s, _, until_s: ("flood", dest, str(start_s), str(until_s + AFTER_S), size, offered_bps),
        lambda _, __, until_s: ("sink", dest, str(until_s + AFTER_S)),
    ]
    traffic = _rate_traffic(plane, mbps, roles)
    bits_mbps = _DATAGRAM_BYTES * 8 / traffic.seconds / 1e6
    read = traffic.frames.sent * bits_mbps
    return _rate(plane, "UDP", mbps, traffic.frames.arrived * bits_mbps, {"read_mbps": read}), traffic


def _tcp_rate(plane: str, mbps: float) -> tuple[Found, Traffic]:
    dest = address(1)
    traffic = _rate_traffic(plane, mbps, [pouring(dest), draining(dest)])
    return _rate(plane, "TCP", mbps, traffic.results[1] * 8 / PAYLOAD / traffic.seconds / 1e6, {}), traffic


def _rate_traffic(plane: str, mbps: float, roles: Sequence[Role]) -> Traffic:
    link = {"from": "n.0", "to": "n.1", "latency": f"{RATE_LATENCY_MS}ms", "rate": f"{mbps}Mbps"}
    topology = _loaded({"services": {"n": {"replicas": 2}}, "links": [link]})
    return carried_traffic(plane, topology, "cubic", roles, _RATE_SETTLE_S, _RATE_WINDOW_S, apart=False)


def _rate(plane: str, what: str, asked_mbps: float, found_mbps: float, more: dict[str, float]) -> Found:
    figures = {"asked_mbps": asked_mbps, "found_mbps": found_mbps, **more}
    told = f"{found_mbps:.4g} ({found_mbps / asked_mbps:.1%})"
    if more and more["read_mbps"] < asked_mbps:
        told += f", of only {more['read_mbps']:.4g} read"
    return Found(plane, IDLE, what, f"{asked_mbps:g} Mbps", figures, told)


def tables(fidelities: Iterable[Fidelity]) -> str:
    """Markdown: one table of delays, one of losses, one of rates."""
    found = [each for fidelity in fidelities for each in fidelity.found]
    return "\n\n".join(as_markdown([*_table(found, kinds)]) for kinds in (("delay",), ("loss",), ("UDP", "TCP")))


def _table(found: Sequence[Found], kinds: Sequence[str]) -> Iterator[Row]:
    """A row for everything asked, a column for every plane and condition."""
    rows: dict[str, Row] = {}
    for each in (each for each in found if each.what in kinds):
        row = rows.setdefault(each.asked, {"asked": each.asked})
        row[f"{each.plane}, {each.condition if each.what == 'delay' else each.what}"] = each.told
    yield from rows.values()
