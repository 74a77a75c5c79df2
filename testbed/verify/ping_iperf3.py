"""Measurements by ping and iperf3, where they are installed, judged by the same bounds.

Takes a plan and a running network, gives rows; starts those programs in the network namespaces of nodes.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace

from testbed.verify import judge
from testbed.verify.judge import Row, Verdict
from testbed.verify.network import FIRST_PORT, PATIENCE_S, Running
from testbed.verify.pairs import Pair
from testbed.verify.plan import Plan, iperf_work
from testbed.verify.sizing import PING_GAP_S, ping_seconds, waves
from testbed.verify.tools import ToolFailed, said, started, wait_for_listener

PING, IPERF = "round trip (ping)", "rate (iperf3)"
_TIME = re.compile(r"\btime=([0-9.]+) ms")
_PING_BYTES = 56
"""Payload; with less than 16 bytes ping does not measure times."""
_NOT_ALL_CAME_BACK = 1
_STATISTICS = "packets transmitted"
"""Printed by ping at the end of a measurement; with the same exit status it may have refused its arguments."""
_HEADERS_BYTES = 28
_UDP_BYTES = 1500 - _HEADERS_BYTES
_PORT = FIRST_PORT + 2000
_LISTENING_S = 20.0
"""How long a server may take to listen on a busy machine."""


def pings(plan: Plan, program: str, running: Running) -> list[Row]:
    """Pings all pairs at once; a pair out of bounds is measured again, as with our own probes.

    Where ping itself fails, the pair is unmeasured, with ping's output as the reason.
    """
    rows = {pair.name: row for pair, row in zip(plan.pairs, _ping_all(plan, program, running), strict=True)}
    again = [pair for pair in plan.pairs if rows[pair.name].verdict is Verdict.WRONG]
    second = _ping_all(replace(plan, pairs=again), program, running)
    found = zip(again, second, strict=True)
    rows |= {pair.name: row for pair, row in found if row.verdict is not Verdict.UNMEASURED}
    return [*rows.values()]


def _ping_all(plan: Plan, program: str, running: Running) -> list[Row]:
    words = [program, "-n", "-c", str(plan.effort.echoes), "-i", f"{PING_GAP_S:g}", "-s", str(_PING_BYTES)]
    with ExitStack() as stack:
        processes = []
        for pair in plan.pairs:
            patience_s = 2 * pair.round_trip_s + 10 * pair.jitter_s + 0.2
            whole = [*words, "-W", f"{patience_s:.3f}", running.addresses[pair.dest]]
            try:
                processes.append(stack.enter_context(started(running.nodes.pid(pair.origin), whole)))
            except ToolFailed as problem:
                return [_unmeasured(each, PING, "ms", problem) for each in plan.pairs]
        begun_s = time.monotonic()
        return [
            _pinged(pair, process, begun_s + ping_seconds(pair, plan.effort) + PATIENCE_S)
            for pair, process in zip(plan.pairs, processes, strict=True)
        ]


def _pinged(pair: Pair, process: subprocess.Popen[str], until_s: float) -> Row:
    try:
        printed = said(process, until_s, _has_pinged)
    except ToolFailed as problem:
        return _unmeasured(pair, PING, "ms", problem)
    times_s = [float(found) / 1e3 for found in _TIME.findall(printed)]
    asked_s = pair.probe_round_trip_s(_PING_BYTES + _HEADERS_BYTES)
    both_s = math.hypot(pair.there.jitter_s, pair.back.jitter_s)
    return judge.round_trip(pair.name, asked_s, both_s, times_s, what=PING)


def _has_pinged(status: int, printed: str) -> bool:
    return status in (0, _NOT_ALL_CAME_BACK) and _STATISTICS in printed


def _unmeasured(pair: Pair, what: str, unit: str, problem: ToolFailed) -> Row:
    return Row(pair.name, what, None, None, unit, Verdict.UNMEASURED, problem.message)


def iperfs(plan: Plan, program: str, running: Running) -> list[Row]:
    """Runs one pair after the other: TCP on paths without loss, UDP at twice the rate on lossy ones.

    Where iperf3 itself fails, the pair is unmeasured, with iperf3's output as the reason.
    """
    pairs = [work.job for wave in waves(iperf_work(plan.pairs, plan.effort)) for work in wave]
    rows = []
    for pair in pairs:
        try:
            rows.append(_iperf(pair, program, running))
        except ToolFailed as problem:
            rows.append(_unmeasured(pair, IPERF, "Mbps", problem))
    return rows


def _iperf(pair: Pair, program: str, running: Running) -> Row:
    way = pair.there
    arriving_bps, waiting_s, filling_s = way.flooded(2 * way.rate_bps)
    is_udp = way.loss > 0
    warm_s = math.ceil(way.latency_s + waiting_s + 1.2 * filling_s if is_udp else 1.0 + 20 * pair.round_trip_s)
    seconds = math.ceil(2.0 + 5 * pair.round_trip_s)
    client = [program, "-c", running.addresses[pair.dest], "-p", str(_PORT), "-J", "-t", str(seconds)]
    client += ["-O", str(warm_s)]
    if is_udp:
        client += ["-u", "-b", f"{2 * way.rate_bps * _UDP_BYTES / 1500:.0f}", "-l", str(_UDP_BYTES)]
    server = [program, "-s", "-1", "-p", str(_PORT)]
    with started(running.nodes.pid(pair.dest), server) as listener:
        wait_for_listener(listener, _PORT, time.monotonic() + _LISTENING_S)
        with started(running.nodes.pid(pair.origin), client) as process:
            until_s = time.monotonic() + warm_s + seconds + PATIENCE_S
            printed = said(process, until_s, lambda status, _: status == 0)
    received_bps = received(printed, is_udp=is_udp)
    if not is_udp:
        return judge.rate(pair.name, IPERF, way.rate_bps, received_bps, gated=True, detail="TCP")
    chance = judge.chance_of_loss(way.loss, int(received_bps / 8 / _UDP_BYTES * seconds))
    return judge.rate(pair.name, IPERF, arriving_bps, received_bps, gated=True, chance=chance, detail="UDP")


def received(printed: str, *, is_udp: bool) -> float:
    """Payload per second at the receiver, from iperf3's JSON."""
    try:
        end = json.loads(printed)["end"]
        if not is_udp:
            return float(end["sum_received"]["bits_per_second"])
        found = end.get("sum_received") or end["sum"]
        if found.get("bytes"):
            return float(found["bits_per_second"])
        # Without the receiver's numbers: what was sent less what was lost.
        return float(end["sum"]["bits_per_second"]) * (1.0 - float(end["sum"]["lost_percent"]) / 100)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ToolFailed(f"iperf3 said what cannot be read: {problem!r}") from None
