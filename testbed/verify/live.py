"""Measures the network of a running experiment beside its learners.

Takes a run directory and process ids inside its nodes' network namespaces, gives rows; starts probe processes in those
namespaces, which send a small packet now and then, and asks the fabric. What learners' traffic would distort is not
measured, and the result says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from testbed.endpoints import Endpoint
from testbed.engines.fabric.config import FabricConfig, read_config
from testbed.engines.fabric.reports import EVERY_S, LINKS
from testbed.engines.fabric.requests import FabricLost
from testbed.engines.fabric.start import FabricConversation
from testbed.engines.fabric.traffic_log import LinkLine, Second
from testbed.errors import PreflightRefused, UsageProblem
from testbed.network.graph import Network, expand
from testbed.network.moment import network_at
from testbed.protocol.fabric import FabricStatus, GetStatus, Links, ShowLink
from testbed.run_files import open_plain
from testbed.runtimes import runtime
from testbed.runtimes.enter import has_network
from testbed.runtimes.processes.engine import FABRIC
from testbed.runtimes.tracking.process_records import record_of
from testbed.topologies.model import Topology
from testbed.verify import judge_live
from testbed.verify.judge import Row, Verdict
from testbed.verify.measure import Measured, Tell
from testbed.verify.network import Running
from testbed.verify.pairs import OneWayPath, Pair, choose_pairs
from testbed.verify.prepare import link_ends
from testbed.verify.probe_processes import MeasuringFailed, ProbeNodes, node_beside
from testbed.verify.probe_protocol import Echoed, Responded
from testbed.verify.probes import PROBE_BYTES
from testbed.verify.sizing import MARGIN_S, EchoNeed
from testbed.verify.traffic import echo_all

PROBES = 200
_ENDING_S = 1.0
"""A run's network disappears a moment before its last processes."""
_LEAST_GAP_S, _MOST_GAP_S = 0.04, 0.06
ENGINE = "engine"
_PROPERTIES = ("latency_ms", "jitter_ms", "loss", "rate_bps", "queue_ms", "queue_bytes", "background_bps", "up")
_IN_THE_WAY = (
    "jitter, queues, rates, shares, changes and exact drops: the learners' traffic is in the way; "
    "`testbed verify TOPOLOGY` measures them"
)


@dataclass(frozen=True, slots=True)
class LiveNetwork:
    """The network of a running experiment, and how to reach its fabric."""

    config: FabricConfig
    endpoint: Endpoint
    """Where the fabric is reached."""
    topology: Topology
    engine: Path
    pids: Mapping[int, int]
    """Process ids inside the network namespaces of living nodes, by rank."""


@dataclass(frozen=True, slots=True)
class CountedSecond:
    """One second of the fabric's counters."""

    seconds: float
    links: dict[int, LinkLine]


def find_live(attached: runtime.LiveRun, pids: Mapping[int, int]) -> LiveNetwork:
    """Raises UsageProblem when the run has no network that can be measured now."""
    run, endpoint = attached.run, attached.fabric
    try:
        is_there = endpoint.exists() if isinstance(endpoint, Path) else True
    except PermissionError:
        raise UsageProblem("the run is another user's", "only the user who started it can reach its network") from None
    if not is_there:
        raise UsageProblem(f"the network of the run {run.path.name} is not there now", "does it only begin, or end?")
    config = read_config(record_of(run).parent / FABRIC)
    return LiveNetwork(config, endpoint, config.load_topology(), run.path / ENGINE, pids)


def measure_live(
    live: LiveNetwork, count: int, seed: int, tell: Tell, probes: int = PROBES
) -> tuple[list[Pair], Measured]:
    """The measured pairs and the result."""
    with _conversation(live.endpoint) as conversation:
        status = _status(conversation)
        if status.t is None:
            raise UsageProblem("the run has not begun yet", "try again in a moment")
        network = _now(live, status.t, conversation)
        there = frozenset(rank for rank, pid in live.pids.items() if has_network(pid))
        pairs = choose_pairs(network, count, seed, among=there - frozenset(status.cut))
        if not pairs:
            raise UsageProblem("no two living nodes of this run reach each other now")
        tell(f"{len(pairs)} pairs: round trips and losses beside the learners, {_MOST_GAP_S * probes:.0f} s")
        written = _size(live.engine / LINKS)
        try:
            answers = _echo(live, pairs, conversation, probes)
        except (MeasuringFailed, PreflightRefused) as problem:
            if (why := _why_not(live, pairs, conversation)) is not None:
                raise why from problem
            raise
        time.sleep(2 * EVERY_S)  # until the last of it has been written
        seconds = _seen(live.engine / LINKS, written)
        after = _status(conversation)
        still = after.t is not None and _is_same(network, _now(live, after.t, conversation))
    gone = frozenset(after.cut) | _dead(live, pairs)
    rows = []
    for pair, answer in zip(pairs, answers, strict=True):
        found = [*_of_pair(live, pair, answer, seconds)]
        rows += _told(found, "a node of it went away meanwhile") if gone & {pair.origin, pair.dest} else found
    counted, uncrossed = judge_live.counted_losses(network, seconds, len(rows))
    busiest = judge_live.busiest(network, seconds)
    rows += [*counted, *busiest]
    if not still:
        rows = _told(rows, "the network changed meanwhile")
    return pairs, Measured(tuple(rows), after.overloaded, (_IN_THE_WAY, *_unseen(uncrossed, is_idle=not busiest)))


def _told(rows: Sequence[Row], why: str) -> list[Row]:
    """The same rows, reported instead of judged."""
    return [replace(row, verdict=Verdict.TOLD, detail=why) for row in rows]


def _dead(live: LiveNetwork, pairs: Sequence[Pair]) -> frozenset[int]:
    """Nodes of the pairs whose process or device is gone."""
    ranks = {rank for pair in pairs for rank in (pair.origin, pair.dest)}
    return frozenset(rank for rank in ranks if not has_network(live.pids[rank]))


def _why_not(live: LiveNetwork, pairs: Sequence[Pair], conversation: FabricConversation) -> UsageProblem | None:
    """Names the nodes that ended during the measurement; None when all are there and the cause is another one."""
    time.sleep(_ENDING_S)
    _status(conversation)  # raises when the run is over
    dead = [live.topology.nodes[rank].name for rank in sorted(_dead(live, pairs))]
    if not dead:
        return None
    named = dead[0] + (f" and {len(dead) - 1} more" if len(dead) > 1 else "")
    return UsageProblem(f"{named} went away while the network was looked at", "try again: others are chosen then")


def _unseen(uncrossed: int, *, is_idle: bool) -> Iterator[str]:
    """What could not be judged because learners sent too little meanwhile."""
    if uncrossed:
        links = f"{uncrossed} lossy link{'' if uncrossed == 1 else 's'}"
        yield f"losses on {links}: too little crossed them meanwhile for {judge_live.ENOUGH_DROPS} drops"
    if is_idle:
        yield "whether a link carries more than its rate: none carried anything meanwhile"


@contextmanager
def _conversation(endpoint: Endpoint) -> Iterator[FabricConversation]:
    try:
        conversation = FabricConversation(endpoint)
        try:
            yield conversation
        finally:
            conversation.close()
    except FabricLost as problem:
        raise UsageProblem(f"the run is over: {problem.message}") from None


def _status(conversation: FabricConversation) -> FabricStatus:
    status = conversation.ask(GetStatus)
    assert isinstance(status, FabricStatus)  # noqa: S101 - it is the answer to that
    return status


def _now(live: LiveNetwork, t: float, conversation: FabricConversation) -> Network:
    """The network asked for now: the topology after its events, plus live changes, which only the fabric knows."""
    network = network_at(live.topology, expand(live.topology), t, live.config.seed)
    columns = {name: getattr(network, name).copy() for name in _PROPERTIES}
    for link, (origin, dest) in link_ends(network).items():
        answer = conversation.ask(partial(ShowLink, origin=origin, dest=dest, both=False))
        if isinstance(answer, Links) and len(answer.links) == 1 and answer.links[0].changed:
            for name, values in columns.items():
                values[link] = getattr(answer.links[0], name)
    return replace(network, **columns)


def _is_same(one: Network, other: Network) -> bool:
    if len(one.partitions) != len(other.partitions):
        return False
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in _PROPERTIES)


def _echo(
    live: LiveNetwork, pairs: Sequence[Pair], conversation: FabricConversation, probes: int
) -> list[tuple[Responded, Echoed]]:
    scale = live.config.time_scale
    nodes = ProbeNodes(lambda rank: node_beside(rank, live.pids[rank]))
    try:
        for rank in sorted({rank for pair in pairs for rank in (pair.origin, pair.dest)}):
            nodes.join(rank)
        addresses = tuple(node.address for node in live.config.nodes)
        running = Running(live.engine, addresses, nodes, conversation)
        jobs = []
        for pair in pairs:
            queue_s = sum(min(hop.queue_s, 1.0) for way in (pair.there, pair.back) for hop in way.hops)
            patience_s = scale * (2 * pair.round_trip_s + 10 * pair.jitter_s + queue_s) + MARGIN_S
            jobs.append((pair, EchoNeed(probes, _LEAST_GAP_S, _MOST_GAP_S, patience_s)))
        return echo_all(jobs, running)
    finally:
        nodes.end()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _seen(path: Path, written: int) -> list[CountedSecond]:
    """Seconds that the fabric wrote since the file had this length; the first line only dates the next."""
    lines = []
    with open_plain(path, path.parents[1]) as file:
        file.seek(written)
        for line in file.read().split(b"\n")[:-1]:  # the last may be torn
            lines.append(msgspec.json.decode(line, type=Second))
    timed = [(line.t, line) for line in lines if line.t]
    return [
        CountedSecond(t - before, {each.link: each for each in line.links})
        for (before, _), (t, line) in pairwise(timed)
    ]


def _of_pair(
    live: LiveNetwork, pair: Pair, answer: tuple[Responded, Echoed], seconds: Sequence[CountedSecond]
) -> Iterator[Row]:
    responded, echoed = answer
    scale = live.config.time_scale
    asked_s = pair.probe_round_trip_s(PROBE_BYTES)
    both_s = math.hypot(pair.there.jitter_s, pair.back.jitter_s)
    waits_s = sum(_quietest_s(hop.link, seconds) for way in (pair.there, pair.back) for hop in way.hops)
    times_s = [each / scale for each in echoed.round_trips_s]
    yield judge_live.least_round_trip(pair.name, asked_s, both_s, times_s, waits_s)
    back = len(echoed.round_trips_s)
    yield _loss(pair.name, "loss", pair.there, echoed.sent, echoed.sent - responded.probes, seconds)
    yield _loss(pair.name, "loss back", pair.back, responded.probes, responded.probes - back, seconds)


def _quietest_s(link: int, seconds: Sequence[CountedSecond]) -> float:
    """The least mean queueing delay of a link in any second."""
    return min((each.links[link].queue_mean_ms / 1e3 for each in seconds if link in each.links), default=0.0)


def _loss(pair: str, what: str, way: OneWayPath, sent: int, missing: int, seconds: Sequence[CountedSecond]) -> Row:
    crowded = any(line.dropped_queue for each in seconds for link, line in each.links.items() if link in way.links)
    return judge_live.loss(pair, what, way.loss, sent, missing, crowded=crowded)
