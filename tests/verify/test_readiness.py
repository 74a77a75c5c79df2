"""Measurements begin when every node is ready: on a busy machine, a receiver may take its time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.engines.namespace import TcpSettings
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from testbed.verify import probes, streams
from testbed.verify.network import Running, running_network
from testbed.verify.pairs import Pair
from testbed.verify.prepare import config_for, plan_of
from testbed.verify.probe_processes import HEADSTART_S
from testbed.verify.sizing import EchoNeed, Effort, StreamNeed, Task
from testbed.verify.tools import NO_TOOLS
from testbed.verify.traffic import TcpFlow, echo_all, stream_all, tcp_rates
from testbed.verify.work_folder import make_work_folder
from tests.engines.world import needs_network
from tests.engines.world import pair as topology_of_pair

pytestmark = needs_network

SLOW_S = HEADSTART_S + 0.5
COUNT = 50


def slowly(opens: Callable[[int], socket.socket]) -> Callable[[int], socket.socket]:
    def open_slowly(port: int) -> socket.socket:
        time.sleep(SLOW_S)
        return opens(port)

    return open_slowly


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, Pair]]:
    for module, name in ((probes, "receiver"), (streams, "receiver"), (streams, "listener")):
        monkeypatch.setattr(module, name, slowly(getattr(module, name)))
    topology = load_bytes(topology_of_pair().encode(), Form.YAML, "test").require()
    (pair, *_) = plan_of(topology, 1, 1, Effort(), NO_TOOLS).pairs
    with (
        make_work_folder() as work,
        running_network(config_for(topology, 1, work.folder), (0, 1), work, "n", TcpSettings()) as found,
    ):
        yield found, pair


def test_no_packet_is_sent_before_its_receiver_listens(running: tuple[Running, Pair]) -> None:
    network, pair = running
    ((responded, echoed),) = echo_all([(pair, EchoNeed(COUNT, 0.002, 0.002, 1.0))], network)
    assert (responded.probes, len(echoed.round_trips_s)) == (COUNT, COUNT)
    need = StreamNeed(COUNT, 500.0, 200, 0.0, 0.5)
    ((_, _, sent, received),) = stream_all([Task((pair, need), frozenset(), 1.0, 0.1)], network)
    assert (sent.packets, received.packets) == (COUNT, COUNT)
    (rate,) = tcp_rates([TcpFlow(pair, 0.1, 0.5)], network)
    assert rate.bits_per_s > 0.0
