"""Where the bytes of a run's nodes went: what they say themselves, what the kernel counted, what the fabric carried."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from testbed.cli.run_target import live_run
from testbed.engines.fabric.reports import LINKS
from testbed.engines.fabric.traffic_log import Second
from testbed.plan.files import read_plan
from testbed.records import Count, End, Round, Start
from testbed.rundir import RunDirectory
from tests.runtimes.scratch_run import until
from tests.runtimes.sim_runs import records

_ADDRESS = re.compile(r"\|-- (198\.[0-9.]+)\s+/32 host LOCAL")


class Bytes(NamedTuple):
    """Of one node."""

    sent: int
    received: int

    def __le__(self, other: tuple[int, ...]) -> bool:
        return self.sent <= other[0] and self.received <= other[1]


def told(directory: RunDirectory, node: str) -> Bytes:
    """By the node's journal, in all its lives: of one that was killed, as far as it came."""
    lives = [Bytes(0, 0)]
    for each in records(directory, node):
        match each:
            case Start():
                lives.append(Bytes(0, 0))
            case Round():
                lives[-1] = Bytes(lives[-1].sent + _size(each.sent), lives[-1].received + _size(each.received))
            case End():
                lives[-1] = Bytes(_size(each.sent), _size(each.received))
    return Bytes(sum(each.sent for each in lives), sum(each.received for each in lives))


def _size(count: Count) -> int:
    return count.payload + count.metadata + count.control


def carried(directory: RunDirectory, nodes: tuple[str, ...]) -> dict[str, Bytes]:
    """From each node's own device, and to it, by the fabric: whole packets, those that came again included."""
    sent, received = Counter[int](), Counter[int]()
    for text in (directory.path / "engine" / LINKS).read_bytes().splitlines():
        for pair in msgspec.json.decode(text, type=Second).pairs or ():
            sent[pair.origin] += pair.bytes
            received[pair.dest] += pair.arrived_bytes
    return {node: Bytes(sent[rank], received[rank]) for rank, node in enumerate(nodes)}


def through_device(pid: int) -> Bytes:
    """By the kernel, at the one device of the process's network that leads anywhere."""
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    devices = {name.strip(): numbers.split() for name, _, numbers in (line.partition(":") for line in lines)}
    assert devices.keys() == {"lo", "eth0"}
    return Bytes(int(devices["eth0"][8]), int(devices["eth0"][0]))


def assert_the_fabric_carried_all(directory: RunDirectory, nodes: tuple[str, ...]) -> None:
    """Whatever a node says it has sent came from its own device, and whatever has reached it went there."""
    found = carried(directory, nodes)
    for node in nodes:
        assert told(directory, node) <= found[node], node


def assert_all_take_their_own_way(directory: RunDirectory, nodes: tuple[str, ...]) -> None:
    """In a run that goes on: what is said to have been sent has left networks that belong to those nodes alone."""
    pids = live_run(directory).pids()
    addresses = [node.address for node in read_plan(directory.plan).nodes]
    assert pids.keys() == set(range(len(nodes)))
    for rank, node in enumerate(nodes):
        routes = Path(f"/proc/{pids[rank]}/net/fib_trie").read_text()
        assert set(_ADDRESS.findall(routes)) == {addresses[rank]}
        before = told(directory, node)
        assert min(before) > 0, node
        until(lambda pid=pids[rank], least=before: least <= through_device(pid))  # type: ignore[misc]
