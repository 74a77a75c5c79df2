"""The processes that measure have the network of their node, and no privileges."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from testbed.engines.attach import NodeNetwork
from testbed.engines.fabric.sockets import node_socket
from testbed.engines.namespace import TcpSettings
from testbed.plan.addresses import address
from testbed.verify.probe_processes import MeasuringFailed, ProbeNode, new_node, node_beside
from testbed.verify.probe_protocol import Respond
from tests.engines.world import NOBODY, needs_network, pair, world

pytestmark = needs_network


def about(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def assert_has_no_privileges(pid: int) -> None:
    found = about(pid)
    assert {int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert found["NoNewPrivs"].strip() == "1"
    is_root = os.getuid() == 0
    assert set(found["Uid"].split()) == {str(NOBODY if is_root else os.getuid())}
    assert set(found["Gid"].split()) == {str(NOBODY if is_root else os.getgid())}
    assert not is_root or not found["Groups"].split()


def network_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def test_a_node_of_its_own_has_a_network_and_nothing_else(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        own = NodeNetwork(address(1), TcpSettings())
        node = new_node(1, own, node_socket(Path(made.config.sockets), 1))
        try:
            assert made.status().attached == 1
            assert_has_no_privileges(node.pid)
        finally:
            node.end()


def test_one_that_has_ended_takes_no_orders() -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with mine, pytest.raises(MeasuringFailed, match="has ended"):
        ProbeNode(0, 1, mine).order(Respond(1, 0, 0.0))


def test_whoever_looks_on_beside_a_node_has_its_network_and_nothing_else(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        child = made.node(0)
        node = node_beside(0, child.pid)
        try:
            if os.getuid() == 0:  # others may not look into a process that has given up privileges
                assert network_of(node.pid) == network_of(child.pid) != network_of(os.getpid())
            assert_has_no_privileges(node.pid)
        finally:
            node.end()
