"""The network up, everything measured, the network down.

Takes pairs with what is asked of them and the configuration of a fabric, gives rows; starts a fabric twice and a
process for every node involved, and leaves nothing behind. The asked-for network and the fabric's own are two
arguments, so that a test can have a fabric that is wrong.

Twice: in the first network there are only probes, whose packets are all known, so that its counters can be compared
with them exactly; in the second there are streams.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.engines.attach import NodeNetwork
from testbed.engines.fabric.accounts import Second
from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.reports import LINKS
from testbed.engines.fabric.start import FabricConversation, start_fabric
from testbed.engines.namespace import TcpSettings
from testbed.protocol import FabricStatus, GetStatus, Watch
from testbed.verify import judge
from testbed.verify.judge import Row, Verdict
from testbed.verify.needs import (
    MARGIN_S,
    Effort,
    StreamNeed,
    Work,
    echoes,
    flood,
    is_gated,
    links_for_probes,
    losses,
    seconds_of,
    tcp,
    waves,
)
from testbed.verify.nodes import Crew, start_node
from testbed.verify.orders import (
    AnyAnswer,
    Echo,
    Echoed,
    Receive,
    Received,
    Respond,
    Responded,
    Send,
    Sent,
    TcpReceive,
    TcpReceived,
    TcpSend,
    TcpSent,
)
from testbed.verify.pairs import Pair, Shared
from testbed.verify.probes import HEADERS_BYTES, PROBE_BYTES

_Kind = TypeVar("_Kind", bound=AnyAnswer)
Tell = Callable[[str], None]

_FIRST_PORT = 20_000
_PORTS = 16
_HEADSTART_S = 0.3
"""From an order to what it says; receivers are there by then."""
_PATIENCE_S = 30.0
_SHARED_LONGER = 2
"""Times as long: TCP's flows may need some while to agree, and then the second look decides."""
_START_S = 3.0
"""Both networks and their nodes, about."""
_ENOUGH_FLOOD = 0.9
"""Of the rate that a flood should have; with less, the plateau says nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    pairs: Sequence[Pair]
    shared: Shared | None
    effort: Effort

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        return (
            _START_S
            + max((echoes(pair, self.effort).seconds for pair in self.pairs), default=0.0)
            + seconds_of(waves(_loss_work(self.pairs, self.effort)))
            + seconds_of(waves(_flood_work(self.pairs, self.effort)))
            + seconds_of(waves(_tcp_work(self.pairs, self.effort)))
            + (self.effort.shared_warm_s + self.effort.shared_s + MARGIN_S if self.shared else 0.0)
        )

    @property
    def with_few_drops(self) -> int:
        """Pairs that lose so little that this effort sees fewer drops than it would like."""
        return sum(0 < pair.there.loss < self.effort.affordable_loss for pair in self.pairs)

    @property
    def thorough_s(self) -> float:
        """How long it takes with all drops."""
        return replace(self, effort=replace(self.effort, affordable_loss=0.0)).seconds


@dataclass
class _Known:
    """What the nodes know of an ordered pair's packets in the first network."""

    sent: Counter[tuple[int, int]] = field(default_factory=Counter)
    missing: Counter[tuple[int, int]] = field(default_factory=Counter)
    idle_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """One way, without anybody else."""

    def add(self, origin: int, dest: int, sent: int, arrived: int) -> None:
        self.sent[origin, dest] += sent
        self.missing[origin, dest] += sent - arrived


@dataclass(frozen=True, slots=True)
class Measured:
    """All rows, and how the fabrics were while they were measured."""

    rows: tuple[Row, ...]
    overloaded: tuple[str, ...]

    @property
    def is_as_asked(self) -> bool:
        return all(row.verdict is not Verdict.WRONG for row in self.rows)


def measure(plan: Plan, config: FabricConfig, folder: Path, tcp_settings: TcpSettings, tell: Tell) -> Measured:
    """Raises PreflightRefused where this machine denies the network."""
    known = _Known()
    rows: list[Row] = []
    overloaded: list[str] = []
    with _network(plan, config, folder / "probes", tcp_settings) as (first, crew, status):
        tell(f"{len(plan.pairs)} pairs: round trips")
        rows += _echo_all(plan, config, crew, known)
        tell("losses")
        rows += _loss_all(plan, config, crew, known)
        overloaded += status().overloaded
    rows += _counted(plan, first, known)
    with _network(plan, config, folder / "streams", tcp_settings) as (_, crew, status):
        tell("queues and rates")
        rows += _flood_all(plan, config, crew, known)
        rows += _tcp_all(plan, config, crew)
        if plan.shared is not None:
            tell("a shared bottleneck")
            rows += _share(plan.shared, plan.effort, config, crew)
        overloaded += status().overloaded
    order = {pair.name: place for place, pair in enumerate(plan.pairs)}
    rows.sort(key=lambda row: order.get(row.pair, len(order)) if row.what != "share" else len(order))
    return Measured(tuple(rows), tuple(dict.fromkeys(overloaded)))


@contextmanager
def _network(
    plan: Plan, config: FabricConfig, folder: Path, tcp_settings: TcpSettings
) -> Iterator[tuple[Path, Crew, Callable[[], FabricStatus]]]:
    engine = folder / "engine"
    running = msgspec.structs.replace(config, engine=str(engine))
    fabric = start_fabric(running, folder)

    def start(rank: int) -> NodeNetwork:
        return NodeNetwork(running.nodes[rank].address, tcp_settings, running.mtu)

    crew = Crew(lambda rank: start_node(rank, start(rank), running.node_socket(rank)))
    try:
        conversation = fabric.connect()
        conversation.ask(partial(Watch, lead=True))
        pairs = (*plan.pairs, *(plan.shared.flows if plan.shared else ()))
        for rank in sorted({rank for pair in pairs for rank in (pair.origin, pair.dest)}):
            crew.join(rank)
        # Nothing of the timeline is played: what is measured is the network as it starts.
        yield engine, crew, partial(_status, conversation)
    finally:
        crew.end()
        fabric.stop()


def _status(conversation: FabricConversation) -> FabricStatus:
    status = conversation.ask(GetStatus)
    assert isinstance(status, FabricStatus)  # noqa: S101 - it is the answer to that
    return status


def _of(kind: type[_Kind], answers: dict[int, AnyAnswer], number: int) -> _Kind:
    answer = answers[number]
    assert isinstance(answer, kind)  # noqa: S101 - an order has its own kind of answer
    return answer


# -- probes ------------------------------------------------------------------------------------------------------------


def _echo_all(plan: Plan, config: FabricConfig, crew: Crew, known: _Known) -> list[Row]:
    """All pairs at once: a probe now and then disturbs nobody."""
    start_s = time.monotonic() + _HEADSTART_S
    numbers: dict[int, tuple[int, int]] = {}
    longest_s = 0.0
    for place, pair in enumerate(plan.pairs):
        need = echoes(pair, plan.effort)
        port = _FIRST_PORT + place
        responding, asking = crew.number(), crew.number()
        until_s = start_s + need.count * need.most_gap_s + need.patience_s
        crew.order(pair.dest, Respond(responding, port, until_s))
        dest = config.nodes[pair.dest].address
        gaps = (need.least_gap_s, need.most_gap_s)
        crew.order(pair.origin, Echo(asking, dest, port, start_s, need.count, *gaps, need.patience_s, place))
        numbers[place] = (responding, asking)
        longest_s = max(longest_s, until_s)
    every = {number for both in numbers.values() for number in both}
    answers = crew.answers(every, longest_s + _PATIENCE_S)
    rows: list[Row] = []
    for place, pair in enumerate(plan.pairs):
        responded = _of(Responded, answers, numbers[place][0])
        echoed = _of(Echoed, answers, numbers[place][1])
        known.add(pair.origin, pair.dest, echoed.sent, responded.probes)
        known.add(pair.dest, pair.origin, responded.probes, len(echoed.round_trips_s))
        if echoed.there_s:
            known.idle_s[pair.origin, pair.dest] = statistics.median(echoed.there_s)
        asked_s = pair.round_trip_s + pair.there.sending_s(PROBE_BYTES) + pair.back.sending_s(PROBE_BYTES)
        both_s = math.hypot(pair.there.jitter_s, pair.back.jitter_s)
        rows.append(judge.round_trip(pair.name, asked_s, both_s, echoed.round_trips_s))
        ways = (("jitter", pair.there, echoed.there_s), ("jitter back", pair.back, echoed.back_s))
        rows += [judge.jitter(pair.name, what, way.jitter_s, times) for what, way, times in ways if way.jitter_s]
    return rows


def _loss_work(pairs: Sequence[Pair], effort: Effort) -> list[Work[tuple[Pair, StreamNeed]]]:
    needs = [(pair, losses(pair.there, effort)) for pair in pairs]
    return [
        Work((pair, need), links_for_probes(pair), need.seconds, need.load) for pair, need in needs if need is not None
    ]


def _loss_all(plan: Plan, config: FabricConfig, crew: Crew, known: _Known) -> list[Row]:
    rows: list[Row] = []
    works = _loss_work(plan.pairs, plan.effort)
    for wave in waves(works):
        for pair, need, sent, received in _stream(wave, config, crew):
            arrived = received.packets + received.overflowed
            known.add(pair.origin, pair.dest, sent.packets, arrived)
            rows.append(judge.loss(pair.name, pair.there.loss, need.count, sent.packets - arrived, len(works)))
    return rows


def _stream(
    wave: Sequence[Work[tuple[Pair, StreamNeed]]], config: FabricConfig, crew: Crew
) -> Iterator[tuple[Pair, StreamNeed, Sent, Received]]:
    start_s = time.monotonic() + _HEADSTART_S
    numbers = []
    longest_s = 0.0
    for place, work in enumerate(wave):
        pair, need = work.job
        ports = tuple(range(_FIRST_PORT + place * _PORTS, _FIRST_PORT + (place + 1) * _PORTS))
        receiving, sending = crew.number(), crew.number()
        until_s = start_s + need.seconds
        crew.order(pair.dest, Receive(receiving, ports, until_s, need.count, start_s + need.settling_s))
        dest = config.nodes[pair.dest].address
        crew.order(pair.origin, Send(sending, dest, ports, start_s, need.count, need.per_s, need.size_bytes))
        numbers.append((receiving, sending))
        longest_s = max(longest_s, until_s)
    answers = crew.answers({number for both in numbers for number in both}, longest_s + _PATIENCE_S)
    for work, (receiving, sending) in zip(wave, numbers, strict=True):
        yield (*work.job, _of(Sent, answers, sending), _of(Received, answers, receiving))


def _counted(plan: Plan, engine: Path, known: _Known) -> list[Row]:
    """What the fabric has counted in the whole life of the first network."""
    offered: Counter[tuple[int, int]] = Counter()
    dropped: Counter[tuple[int, int]] = Counter()
    for line in (engine / LINKS).read_bytes().splitlines():
        for pair in msgspec.json.decode(line, type=Second).pairs or []:
            offered[pair.origin, pair.dest] += pair.packets
            dropped[pair.origin, pair.dest] += pair.dropped_packets
    rows = []
    for each in plan.pairs:
        there = (each.origin, each.dest)
        rows.append(judge.counted(each.name, known.missing[there], dropped[there], known.sent[there], offered[there]))
    return rows


# -- streams -----------------------------------------------------------------------------------------------------------


def _flood_work(pairs: Sequence[Pair], effort: Effort) -> list[Work[tuple[Pair, StreamNeed]]]:
    needs = [(pair, flood(pair.there, effort)) for pair in pairs]
    return [
        Work((pair, need), pair.links, need.seconds, min(1.0, need.load)) for pair, need in needs if need is not None
    ]


def _flood_all(plan: Plan, config: FabricConfig, crew: Crew, known: _Known) -> list[Row]:
    works = _flood_work(plan.pairs, plan.effort)
    flooded = {work.job[0].name for work in works}
    rows = [
        Row(pair.name, "queue", None, None, "ms", Verdict.UNMEASURED, "twice its rate is too much for this machine")
        for pair in plan.pairs
        if pair.name not in flooded and math.isfinite(pair.there.rate_bps)
    ]
    for wave in waves(works):
        for pair, need, sent, received in _stream(wave, config, crew):
            rows += _of_flood(pair, need, sent, received, known)
    return rows


def _of_flood(pair: Pair, need: StreamNeed, sent: Sent, received: Received, known: _Known) -> Iterator[Row]:
    bits = need.size_bytes * 8
    offered_bps = sent.packets / sent.seconds * bits
    if offered_bps < _ENOUGH_FLOOD * need.per_s * bits:
        told = f"only {offered_bps / 1e6:.1f} of {need.per_s * bits / 1e6:.1f} Mbps could be sent"
        yield Row(pair.name, "queue", None, None, "ms", Verdict.UNMEASURED, told)
        return
    arriving_bps, waiting_s, _ = pair.there.flooded(offered_bps)
    idle_s = known.idle_s.get((pair.origin, pair.dest))
    if idle_s is None or not received.delays_s or not received.settled_span_s:
        yield Row(pair.name, "queue", waiting_s * 1e3, None, "ms", Verdict.WRONG, "nothing arrived")
        return
    idle_s += pair.there.sending_s(need.size_bytes) - pair.there.sending_s(PROBE_BYTES)
    yield judge.queue(pair.name, waiting_s, statistics.median(received.delays_s) - idle_s)
    if pair.there.loss:
        payload = (need.size_bytes - HEADERS_BYTES) / need.size_bytes
        measured_bps = (received.settled_packets + received.overflowed - 1) / received.settled_span_s * bits * payload
        # Small packets are mostly headers: what is asked of them is the payload of full ones.
        full = (1500 - HEADERS_BYTES) / 1500
        gated = is_gated(pair.there.rate_bps)
        chance = judge.chance_of_loss(pair.there.loss, received.settled_packets)
        useful_bps = measured_bps / payload * full
        yield judge.rate(pair.name, "rate (UDP)", arriving_bps, useful_bps, gated=gated, chance=chance)


def _tcp_work(pairs: Sequence[Pair], effort: Effort) -> list[Work[Pair]]:
    found = []
    lossy = 0
    for pair in pairs:
        need = tcp(pair)
        lossy += pair.there.loss > 0
        if need is not None and pair.there.loss < 1 and (not pair.there.loss or lossy <= effort.lossy_tcp):
            found.append(Work(pair, pair.links, need.seconds, min(1.0, need.load)))
    return found


def _tcp_all(plan: Plan, config: FabricConfig, crew: Crew) -> list[Row]:
    rows = []
    for wave in waves(_tcp_work(plan.pairs, plan.effort)):
        flows = []
        for work in wave:
            need = tcp(work.job)
            assert need is not None  # noqa: S101 - it is among the work
            flows.append((work.job, need.warm_s, need.seconds - MARGIN_S))
        for (pair, _, _), (bps, congestion) in zip(flows, _connections(flows, config, crew), strict=True):
            rows.append(_of_tcp(pair, bps, congestion))
    return rows


def _of_tcp(pair: Pair, measured_bps: float, congestion: str) -> Row:
    asked_bps, loss = pair.there.rate_bps, pair.there.loss
    if not loss:
        return judge.rate(
            pair.name,
            "rate (TCP)",
            asked_bps,
            measured_bps,
            gated=is_gated(asked_bps),
            detail=congestion,
        )
    predicted_bps = min(asked_bps, judge.predicted_cubic_bps(loss, max(pair.round_trip_s, 1e-3)))
    detail = f"{congestion}; RFC 9438 expects {predicted_bps / 1e6:.1f}"
    return judge.rate(pair.name, "rate (TCP)", asked_bps, measured_bps, gated=False, detail=detail)


def _connections(
    flows: Sequence[tuple[Pair, float, float]], config: FabricConfig, crew: Crew
) -> list[tuple[float, str]]:
    """Of each (pair, seconds of warm-up, seconds in all): bits per second, and the congestion control in use."""
    start_s = time.monotonic() + _HEADSTART_S
    numbers = []
    for place, (pair, warm_s, whole_s) in enumerate(flows):
        receiving, sending = crew.number(), crew.number()
        port = _FIRST_PORT + place
        until_s = start_s + whole_s
        crew.order(pair.dest, TcpReceive(receiving, port, start_s + warm_s, until_s))
        crew.order(pair.origin, TcpSend(sending, config.nodes[pair.dest].address, port, start_s, until_s))
        numbers.append((receiving, sending))
    longest_s = max(whole_s for _, _, whole_s in flows)
    answers = crew.answers({each for both in numbers for each in both}, start_s + longest_s + _PATIENCE_S)
    return [
        (_of(TcpReceived, answers, receiving).bits_per_s, _of(TcpSent, answers, sending).congestion)
        for receiving, sending in numbers
    ]


def _share(shared: Shared, effort: Effort, config: FabricConfig, crew: Crew) -> list[Row]:
    measured: list[float] = []
    for times in (1, _SHARED_LONGER):
        warm_s = times * effort.shared_warm_s
        flows = [(pair, warm_s, warm_s + times * effort.shared_s) for pair in shared.flows]
        measured = [bps for bps, _ in _connections(flows, config, crew)]
        if judge.is_fair(shared.rate_bps, measured):
            break
    return judge.shared([pair.name for pair in shared.flows], shared.rate_bps, measured)
