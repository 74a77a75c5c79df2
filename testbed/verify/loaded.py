"""Measurements under load: queues, rates, and the shares of a bottleneck.

Takes a plan and a running network, gives rows; orders the load from the nodes' probe processes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import msgspec

from testbed.engines.fabric.reports import LINKS
from testbed.engines.fabric.traffic_log import Second
from testbed.verify import judge
from testbed.verify.idle import Ends
from testbed.verify.judge import Row, Verdict
from testbed.verify.network import Running
from testbed.verify.pairs import Pair, SharedBottleneck
from testbed.verify.plan import Plan, filling_work, flood_work, tcp_work
from testbed.verify.probe_protocol import DatagramsReceived, DatagramsSent
from testbed.verify.probes import HEADERS_BYTES, PROBE_BYTES
from testbed.verify.sizing import MARGIN_S, EchoNeed, Effort, StreamNeed, TcpNeed, filling, is_gated, tcp, waves
from testbed.verify.traffic import TcpFlow, echo_all, stream_all, tcp_rates

_SHARED_LONGER = 2
"""Factor of the second measurement, which decides: TCP flows may take a while to converge."""
_ENOUGH_FLOOD = 0.9
"""Share of a flood's intended rate; below it the plateau says nothing."""
_FILLERS = 8
"""TCP connections that keep a queue full."""
_FILLED_GAP_S = 0.002
_FULLEST = 0.98
"""Quantile of the delays behind TCP's queue that stands for a full queue; higher ones are outliers of this machine."""
_FULL_PACKET_BYTES = 1500


def queues(plan: Plan, running: Running, idle_s: dict[Ends, float]) -> list[Row]:
    """Fills queues by floods of datagrams; by TCP where a flood would be too much for this machine."""
    floods, fillings = flood_work(plan.pairs, plan.effort), filling_work(plan.pairs, plan.effort)
    possible = {work.job[0].name for work in floods} | {work.job.name for work in fillings}
    rows = [
        Row(pair.name, "queue", None, None, "ms", Verdict.UNMEASURED, "twice its rate is too much for this machine")
        for pair in plan.pairs
        if pair.name not in possible and math.isfinite(pair.there.rate_bps)
    ]
    for wave in waves(floods):
        for pair, need, sent, received in stream_all(wave, running):
            rows += _of_flood(pair, need, sent, received, idle_s.get((pair.origin, pair.dest)))
    for each in (work for fill in waves(fillings) for work in fill):
        rows.append(_fill(each.job, running, idle_s.get((each.job.origin, each.job.dest))))
    return rows


def _of_flood(
    pair: Pair, need: StreamNeed, sent: DatagramsSent, received: DatagramsReceived, idle_s: float | None
) -> Iterator[Row]:
    bits = need.size_bytes * 8
    offered_bps = sent.packets / sent.seconds * bits
    if offered_bps < _ENOUGH_FLOOD * need.per_s * bits:
        told = f"only {offered_bps / 1e6:.1f} of {need.per_s * bits / 1e6:.1f} Mbps could be sent"
        yield Row(pair.name, "queue", None, None, "ms", Verdict.UNMEASURED, told)
        return
    arriving_bps, waiting_s, _ = pair.there.flooded(offered_bps)
    if idle_s is None or not received.delays_s or not received.settled_span_s:
        yield Row(pair.name, "queue", waiting_s * 1e3, None, "ms", Verdict.WRONG, "nothing arrived")
        return
    idle_s += pair.there.sending_s(need.size_bytes) - pair.there.sending_s(PROBE_BYTES)
    yield judge.queue(pair.name, waiting_s, statistics.median(received.delays_s) - idle_s)
    if pair.there.loss:
        payload = (need.size_bytes - HEADERS_BYTES) / need.size_bytes
        measured_bps = (received.settled_packets + received.overflowed - 1) / received.settled_span_s * bits * payload
        # Small packets are mostly headers: what is asked of them is the payload of full ones.
        full = (_FULL_PACKET_BYTES - HEADERS_BYTES) / _FULL_PACKET_BYTES
        gated = is_gated(pair.there.rate_bps)
        chance = judge.chance_of_loss(pair.there.loss, received.settled_packets)
        useful_bps = measured_bps / payload * full
        yield judge.rate(pair.name, "rate (UDP)", arriving_bps, useful_bps, gated=gated, chance=chance)


def _fill(pair: Pair, running: Running, idle_s: float | None) -> Row:
    """Sends probes behind TCP, which fills a queue until it drops."""
    need = filling(pair)
    asked_s = next(hop.queue_s for hop in pair.there.hops if hop.link == pair.there.bottleneck)
    assert need is not None  # noqa: S101 - it is among the work
    flow_s = need.seconds - MARGIN_S
    count = int((flow_s - need.warm_s) / _FILLED_GAP_S)
    probes = EchoNeed(count, _FILLED_GAP_S, _FILLED_GAP_S, 2 * pair.round_trip_s + 2 * asked_s + MARGIN_S)
    flows = [TcpFlow(pair, need.warm_s, flow_s)] * _FILLERS
    ((_, echoed),) = echo_all([(pair, probes)], running, flows, need.warm_s)
    delays_s = sorted(echoed.there_s)
    if idle_s is None or not delays_s:
        return Row(pair.name, "queue", asked_s * 1e3, None, "ms", Verdict.WRONG, "nothing arrived")
    full_s = delays_s[min(len(delays_s) - 1, int(_FULLEST * len(delays_s)))] - idle_s
    return judge.filled_queue(pair.name, asked_s, full_s, is_full=_has_dropped(running, pair.there.bottleneck))


def _has_dropped(running: Running, link: int) -> bool:
    """Whether the queue of a link has dropped packets up to the last full second."""
    lines = (running.engine / LINKS).read_bytes().splitlines()
    seconds = (msgspec.json.decode(line, type=Second) for line in lines)
    return any(each.dropped_queue for second in seconds for each in second.links if each.link == link)


def rates(plan: Plan, running: Running) -> list[Row]:
    rows = []
    for wave in waves(tcp_work(plan.pairs, plan.effort)):
        wanted = [_connection(work.job, tcp(work.job)) for work in wave]
        for each, carried in zip(wanted, tcp_rates(wanted, running), strict=True):
            rows.append(_of_tcp(each.pair, carried.bits_per_s, carried.congestion))
    return rows


def _connection(pair: Pair, need: TcpNeed | None) -> TcpFlow:
    assert need is not None  # noqa: S101 - it is among the work
    return TcpFlow(pair, need.warm_s, need.seconds - MARGIN_S)


def _of_tcp(pair: Pair, measured_bps: float, congestion: str) -> Row:
    asked_bps, loss = pair.there.rate_bps, pair.there.loss
    if not loss:
        gated = is_gated(asked_bps)
        return judge.rate(pair.name, "rate (TCP)", asked_bps, measured_bps, gated=gated, detail=congestion)
    predicted_bps = min(asked_bps, judge.predicted_cubic_bps(loss, max(pair.round_trip_s, 1e-3)))
    detail = f"{congestion}; RFC 9438 expects {predicted_bps / 1e6:.1f}"
    return judge.rate(pair.name, "rate (TCP)", asked_bps, measured_bps, gated=False, detail=detail)


def shares(shared: SharedBottleneck, effort: Effort, running: Running) -> list[Row]:
    measured: list[float] = []
    for times in (1, _SHARED_LONGER):
        warm_s = times * effort.shared_warm_s
        wanted = [TcpFlow(pair, warm_s, warm_s + times * effort.shared_s) for pair in shared.flows]
        measured = [carried.bits_per_s for carried in tcp_rates(wanted, running)]
        if judge.is_fair(shared.rate_bps, measured):
            break
    return judge.shared([pair.name for pair in shared.flows], shared.rate_bps, measured)
