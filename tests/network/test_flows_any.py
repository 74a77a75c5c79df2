"""Whatever is done to the fluid model: everything that should arrive does, once, in order and not too early."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from testbed.network.flows import Acknowledged, BandwidthSharing, Delivered, Flows, Sent, Tcp, Transfer, model
from testbed.network.graph import Network
from testbed.seeds import stream
from tests.network.test_flows import network_from

SITES = network_from(
    """
services: {a: {replicas: 3}, b: {replicas: 3}}
bridges: [ra, rb]
links:
  - {from: a, to: ra, latency: 1ms, rate: 10Mbps}
  - {from: b, to: rb, latency: 2ms, up: 2Mbps, down: 5Mbps, shared: true}
  - {from: ra, to: rb, latency: 30ms, jitter: 3ms, loss: 2%, rate: 6Mbps}
"""
)
LEAST_S = 2e-5
STOP_S = 3000.0


def disturbed(draw: Random) -> Network:
    """The network with other rates, and sometimes with links that are down."""
    rates = SITES.rate_bps * draw.choice([0.3, 1.0, 4.0])
    up = np.array([draw.random() > 0.1 for _ in range(SITES.link_count)])
    return replace(SITES, rate_bps=rates, up=up if draw.random() < 0.5 else SITES.up)


class Story:
    """One run with random calls, and what it must keep to."""

    def __init__(self, seed: int, sharing: BandwidthSharing, tcp: Tcp) -> None:
        self.draw = stream(seed, "story")
        self.flows = Flows(SITES, seed=seed, tcp=tcp, sharing=sharing)
        self.sent: dict[Transfer, float] = {}
        self.cancelled: set[Transfer] = set()
        self.lost: set[Transfer] = set()
        self.left: dict[Transfer, float] = {}
        self.delivered: dict[Transfer, float] = {}
        self.acknowledged: dict[Transfer, float] = {}
        self.told = {Sent: self.left, Delivered: self.delivered, Acknowledged: self.acknowledged}

    def run(self, calls: int) -> None:
        for _ in range(calls):
            self.draw.choices(
                [self.send, self.go_on, self.cancel, self.change, self.reset], weights=[10, 8, 2, 0.6, 0.2]
            )[0]()
        self.flows.change(SITES)
        while (next_s := self.flows.next_s()) < STOP_S:
            self.advance(next_s)

    def send(self) -> None:
        origin, dest = self.draw.sample(range(SITES.node_count), 2)
        size = self.draw.choice([0, 1, 900, 20_000, 100_000, 300_000])
        self.sent[self.flows.send(origin, dest, size)] = self.flows.now_s

    def go_on(self) -> None:
        until_s = self.flows.now_s + self.draw.expovariate(20)
        while (next_s := self.flows.next_s()) <= until_s:
            self.advance(next_s)
        self.advance(until_s)

    def advance(self, to_s: float) -> None:
        assert to_s >= self.flows.now_s
        for news in self.flows.advance(to_s):
            told = self.told[type(news)]
            assert news.transfer not in told, "told twice"
            assert news.transfer not in self.lost, "from or to a node that has died since"
            told[news.transfer] = self.flows.now_s

    def cancel(self) -> None:
        under_way = [transfer for transfer in self.sent if transfer not in self.delivered]
        if not under_way:
            return
        transfer = self.draw.choice(under_way)
        before = self.flows.sent_bytes(transfer)
        kept = self.flows.cancel(transfer, chunk_bytes=8192)
        if transfer not in self.cancelled and transfer not in self.lost:
            assert before <= kept <= min(before + 8192, transfer.size_bytes)
        if before < transfer.size_bytes:
            self.cancelled.add(transfer)

    def change(self) -> None:
        self.flows.change(disturbed(self.draw))

    def reset(self) -> None:
        rank = self.draw.randrange(SITES.node_count)
        self.flows.reset(rank)
        self.lost |= {each for each in self.sent if rank in (each.origin, each.dest) and each not in self.acknowledged}

    def check(self) -> None:
        assert set(self.delivered) <= set(self.left)
        assert all(self.left[transfer] <= at_s for transfer, at_s in self.delivered.items())
        wanted = {transfer for transfer in self.sent if transfer not in self.cancelled | self.lost}
        assert wanted <= set(self.delivered)
        assert wanted <= set(self.acknowledged)
        assert not self.cancelled & set(self.delivered)
        latest: dict[tuple[int, int], tuple[int, float]] = {}
        for transfer, at_s in self.delivered.items():
            number, before_s = latest.get((transfer.origin, transfer.dest), (-1, 0.0))
            assert transfer.number > number, "out of order"
            assert at_s >= max(before_s, self.sent[transfer] + LEAST_S), "too early"
            latest[transfer.origin, transfer.dest] = transfer.number, at_s
        for transfer, at_s in self.acknowledged.items():
            assert at_s > self.delivered[transfer]


@pytest.mark.parametrize("exactly_up_to", [0, 24])
@pytest.mark.parametrize("sharing", list(BandwidthSharing))
@pytest.mark.parametrize("seed", range(8))
def test_any_story(seed: int, sharing: BandwidthSharing, exactly_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_FEW", exactly_up_to)
    story = Story(seed, sharing, Tcp(congestion="reno" if seed % 2 else "cubic", handshake=seed % 3 > 0))
    story.run(400)
    story.check()
    assert len(story.delivered) > 60
