"""Verdicts beside learners: faster than asked is always wrong; slower, where their traffic explains it, only told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import pytest
import yaml

from testbed.engines.fabric.traffic_log import LinkLine
from testbed.network.graph import Network, expand
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.verify import judge_live
from testbed.verify.judge import Row, Verdict


@pytest.mark.parametrize(
    ("least_ms", "waits_ms", "verdict"),
    [
        (40.0, 0.0, Verdict.OK),
        (40.4, 0.0, Verdict.OK),
        (39.6, 0.0, Verdict.OK),
        (40.6, 0.0, Verdict.WRONG),
        (39.4, 0.0, Verdict.WRONG),
        (39.4, 50.0, Verdict.WRONG),
        (45.0, 5.0, Verdict.TOLD),
        (46.0, 5.0, Verdict.WRONG),
    ],
)
def test_the_least_round_trip(least_ms: float, waits_ms: float, verdict: Verdict) -> None:
    times_s = [least_ms / 1e3, 0.09, 0.2]
    assert judge_live.least_round_trip("p", 0.040, 0.0, times_s, waits_ms / 1e3).verdict is verdict


def test_no_answer_is_wrong() -> None:
    assert judge_live.least_round_trip("p", 0.040, 0.0, [], 1.0).verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("asked", "missing", "crowded", "verdict"),
    [
        (0.0, 0, False, Verdict.OK),
        (0.0, 1, False, Verdict.WRONG),
        (0.0, 1, True, Verdict.TOLD),
        (0.3, 60, False, Verdict.OK),
        (0.3, 120, False, Verdict.WRONG),
        (0.3, 120, True, Verdict.TOLD),
        (0.3, 10, False, Verdict.WRONG),
        (0.3, 10, True, Verdict.WRONG),
    ],
)
def test_losses(asked: float, missing: int, crowded: bool, verdict: Verdict) -> None:
    assert judge_live.loss("p", "loss", asked, 200, missing, crowded=crowded).verdict is verdict


@dataclass(frozen=True)
class Counted:
    seconds: float
    links: dict[int, LinkLine]


def network() -> Network:
    document = {
        "services": {"a": {}, "b": {}},
        "links": [{"from": "a", "to": "b", "latency": "5ms", "rate": "8Mbps", "loss": "5%"}],
    }
    return expand(load_bytes(yaml.safe_dump(document).encode(), Form.YAML, "live").require())


LINE = LinkLine("a.0", "b.0", 0)


def verdicts(rows: list[Row]) -> list[Verdict]:
    return [row.verdict for row in rows]


@pytest.mark.parametrize(
    ("size", "queue_ms", "verdict"),
    [
        (900_000, 0.0, Verdict.OK),
        (1_015_000, 0.0, Verdict.OK),
        (1_030_000, 0.0, Verdict.WRONG),
        (1_100_000, 100.0, Verdict.OK),
        (1_130_000, 100.0, Verdict.WRONG),
    ],
)
def test_no_second_may_carry_more_than_the_rate(size: int, queue_ms: float, verdict: Verdict) -> None:
    line = replace_line(bytes=size, queue_max_ms=queue_ms)
    quiet = replace_line(bytes=10)
    seconds = [Counted(1.0, {0: quiet}), Counted(1.0, {0: line}), Counted(1.0, {0: quiet})]
    assert verdicts(judge_live.busiest(network(), seconds)) == [verdict]


def replace_line(**values: float) -> LinkLine:
    return msgspec.structs.replace(LINE, **values)


def test_without_traffic_no_rate_is_judged() -> None:
    assert judge_live.busiest(network(), []) == []
    assert judge_live.counted_losses(network(), [], 1) == ([], 0)


@pytest.mark.parametrize(
    ("packets", "lost", "told", "left_out"),
    [
        (4, 0, [], 1),
        (199, 10, [], 1),
        (200, 10, [Verdict.OK], 0),
        (6, 6, [Verdict.WRONG], 0),
        (0, 0, [], 0),
    ],
)
def test_too_few_packets_tell_nothing_of_a_loss(packets: int, lost: int, told: list[Verdict], left_out: int) -> None:
    """One in twenty is lost: of four packets none is no measurement, of six all is."""
    line = replace_line(packets=packets, dropped_loss=lost)
    rows, others = judge_live.counted_losses(network(), [Counted(1.0, {0: line})], 10)
    assert (verdicts(rows), others) == (told, left_out)


@pytest.mark.parametrize(("lost", "verdict"), [(500, Verdict.OK), (650, Verdict.WRONG), (350, Verdict.WRONG)])
def test_the_fabric_counts_what_was_asked_for(lost: int, verdict: Verdict) -> None:
    line = replace_line(packets=5_000, dropped_loss=lost // 2)
    rows, left_out = judge_live.counted_losses(network(), [Counted(1.0, {0: line})] * 2, 10)
    assert (verdicts(rows), left_out) == ([verdict], 0)
    other = replace(network(), loss=network().loss * 0)
    assert verdicts(judge_live.counted_losses(other, [Counted(1.0, {0: line})], 10)[0]) == [Verdict.WRONG]
