"""The same run, only slower: whatever is written down is in emulated time, and that is as without a time scale."""

from __future__ import annotations

import json
import socket
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed.engines.namespace import TcpSettings
from testbed.plan.addresses import address
from testbed.plan.files import split
from testbed.plan.model import RunPlan
from testbed.plan.tcp import tcp_of
from testbed.protocol.fabric import SetLink
from testbed.records import End, Event, Over, Round, Start
from testbed.rundir import RunDirectory
from tests.engines.world import PORT, connect, echo_times, pair, world
from tests.runtimes.local_runs import locally, needs_network, run
from tests.runtimes.sim_runs import plan_of, records, star

pytestmark = [needs_network, pytest.mark.alone]
RENO = {"congestion": "reno"}
LARGE = {"name": "mlp", "hidden": 512}
"""150 kB: a round is mostly waiting for messages."""
ATTEMPTS = 3
FAR = """
services:
  node: {replicas: 2}
bridges: [hub]
links:
  - {from: node, to: hub, latency: 15ms, rate: 5Mbps, queue: 2s}
"""


def scaled(plan: RunPlan, time_scale: float) -> RunPlan:
    return locally(plan).model_copy(update={"time_scale": time_scale})


def rounds_s(directory: RunDirectory) -> list[float]:
    """How long the later rounds took, by every node's own journal."""
    found = []
    for rank in range(2):
        ends = [each.t for each in records(directory, f"node.{rank}") if isinstance(each, Round)]
        found += [after - before for before, after in pairwise(ends[1:])]
    return found


def undisturbed_s(plan: RunPlan, folder: Path) -> float:
    """The round in the middle. What else the machine does only adds to it: what it has disturbed is tried again."""
    found = []
    for attempt in range(ATTEMPTS):
        (own := folder / f"{plan.time_scale:g}-{attempt}").mkdir()
        began_s = time.monotonic()
        directory, outcome = run(plan, own)
        real_s = time.monotonic() - began_s
        assert (outcome.reason, outcome.failures) == ("finished", ())
        assert real_s > plan.time_scale * outcome.t
        found.append(statistics.median(rounds_s(directory)))
        if not outcome.overloaded:
            break
    return min(found)


def test_a_round_takes_the_same_emulated_time(tmp_path: Path) -> None:
    settings = {
        "network": RENO,
        "model": LARGE,
        "training": {"lr": 0.1, "batch": 8, "steps": 1},
        "compute": {"ms_per_step": 60},
        "stop": {"rounds": 5},
        "evaluation": {"mode": "none"},
    }
    once, slowly = (undisturbed_s(scaled(plan_of(FAR, **settings), scale), tmp_path) for scale in (1.0, 4.0))
    # A step, a message, and its way there.
    least_s = 0.06 + 4 * 38_000 / 0.625e6 + 0.03
    assert least_s < once < 1.5 * least_s
    assert slowly == pytest.approx(once, rel=0.05)


def test_what_is_written_down_is_in_emulated_time(tmp_path: Path) -> None:
    happens = (
        "  - {at: 0.2s, node: node.2, do: pause}\n  - {at: 0.4s, node: node.2, do: resume}\n"
        "  - {at: 0.5s, link: [node.1, hub], latency: 20ms}\n"
    )
    plan = scaled(plan_of(star(3, happens), stop={"time": "0.8s"}, evaluation={"mode": "none"}), 4.0)
    began_s = time.monotonic()
    directory, outcome = run(plan, tmp_path)
    assert time.monotonic() - began_s > 4 * 0.8
    assert (outcome.reason, outcome.failures) == ("time", ())
    over = records(directory, None)[-1]
    assert isinstance(over, Over)
    assert 0.8 <= over.t < 1.6
    assert 0.8 <= outcome.t < 1.6
    events = [each for each in records(directory, None) if isinstance(each, Event) and each.planned_t is not None]
    assert list(dict.fromkeys((each.what, each.planned_t) for each in events)) == [
        ("pause", 0.2),
        ("resume", 0.4),
        ("network-changed", 0.5),
    ]
    assert all(0 <= each.t - (each.planned_t or 0) < 0.15 for each in events)
    for rank in range(3):
        found = records(directory, f"node.{rank}")
        first, last = found[0], found[-1]
        assert isinstance(first, Start)
        assert 0 <= first.t < 0.2
        assert isinstance(last, End)
        assert 0.75 < last.t < 1.6
        # Two steps of 20 ms a round, whatever they take on this machine.
        trained = [each.phases.train for each in found if isinstance(each, Round)]
        assert trained
        assert statistics.median(trained) == pytest.approx(0.04, abs=0.02)
    summary = json.loads((directory.path / "summary.json").read_text())
    assert (summary["time_scale"], summary["t"]) == (4.0, round(outcome.t, 6))


def test_a_live_change_is_in_emulated_time(tmp_path: Path) -> None:
    with world(pair("1ms"), tmp_path, time_scale=4.0) as made:
        one, _ = made.node(0, echo_times(address(1), 20, 0.005)), made.node(1)
        made.begin()
        made.control.ask(partial(SetLink, origin="n.0", dest="n.1", both=True, latency_ms=10.0))
        one.start()
        times_ms = one.result()
    assert min(times_ms) >= 80.0
    assert statistics.median(times_ms) < 85.0


@pytest.mark.parametrize("time_scale", [1.0, 4.0])
def test_the_kernel_waits_longer_before_it_sends_again(time_scale: float, tmp_path: Path) -> None:
    tcp = TcpSettings(time_scale=time_scale)
    with world(pair("5ms"), tmp_path, time_scale=time_scale) as made:
        one, other = made.node(0, timeout_of(address(1)), tcp=tcp), made.node(1, answering(), tcp=tcp)
        made.begin()
        other.start()
        one.start()
        assert 0.2 <= one.result() / time_scale <= 0.3


def test_a_node_asks_for_it() -> None:
    (node, *_) = split(plan_of(star(3)).model_copy(update={"time_scale": 4.0}))
    assert tcp_of(node) == TcpSettings(congestion="cubic", idle_restart=True, time_scale=4.0)


def timeout_of(dest: str) -> Callable[[], Any]:
    """Seconds after which TCP would send again, once it knows the round trip."""

    def work() -> float:
        with connect(dest) as connection:
            for _ in range(20):
                connection.sendall(b"?")
                connection.recv(1)
            _, timeout_us = struct.unpack_from("=QI", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 16))
            return float(timeout_us / 1e6)

    return work


def answering() -> Callable[[], None]:
    def work() -> None:
        with socket.create_server(("0.0.0.0", PORT)) as listener:  # noqa: S104 - in a namespace of its own
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(1):
                    connection.sendall(data)

    return work
