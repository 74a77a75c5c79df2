"""Connects again where its node has connected, as another node, and hands over a descriptor that is no device."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from sockets_of_mine import link_to_control, say  # type: ignore[import-not-found]

from testbed.node.node import Node
from testbed.protocol.fabric import Attach
from testbed.protocol.message import Message, encode
from testbed.protocol.nodes import Hello, Left, Ready, Recorded
from testbed.protocol.zygote import Died, Forked
from testbed.records import Event, line
from testbed.runtimes.containers.supervisor_messages import Came

SOCKETS = "/testbed/sockets"


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:  # noqa: ARG001
    if round_ == 0:
        for door, words in {
            "control.sock": (Hello(0, 1), Ready(), Hello(node.others[0], 1)),
            "supervisor.sock": (Came(), Forked(node.others[0], 1), Died(node.others[0], 1, 9)),
            "nowhere.sock": (),
        }.items():
            node.note("intrusion", f"{door}: {knock(door, *words)}")
        for what, descriptors in {"none": 0, "a pipe": 1, "two pipes": 2, "far too many": 40}.items():
            node.note("intrusion", f"hands over {what}: {hand_over(encode(Attach()), descriptors)}")
        node.note("intrusion", f"says nonsense: {hand_over(b'nonsense', 1)}")
        node.note("intrusion", f"says much: {hand_over(bytes(200_000), 0)}")
    if round_ == 1:
        link = link_to_control()
        other = node.others[0]
        forged = line(Event(node.now(), "failed", "so it is said", node=node.plan.ranks[other]))
        say(
            link,
            *(Hello(other, 1), Hello(2**40, -1), Ready(), Recorded(forged), Recorded(b"{" * 60_000), Recorded(b"")),
            *(b"nonsense", b"\xc1" * 10, b"\x81\xa4type\xa4died", bytes(60_000), b"\xdf\xff\xff\xff\xff"),
            *(encode(Left(0, 4, 0.0)), encode(Left(10**9, 3, 1e300)), encode(Left(-5, 0, -1.0))),
        )
        with suppress(OSError):
            link.send(bytes(200_000))
        link.close()


def knock(door: str, *words: Message) -> str:
    """What comes of it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.settimeout(5)
        try:
            made.connect(f"{SOCKETS}/{door}")
            for each in words:
                made.send(encode(each))
            return "an answer" if made.recv(1 << 16) else "hung up"
        except OSError as problem:
            return f"denied: {problem.strerror or problem}"


def hand_over(data: bytes, count: int) -> str:
    ends = [end for _ in range(count) for end in os.pipe()][:count]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
            made.settimeout(5)
            made.connect(f"{SOCKETS}/fabric.sock")
            socket.send_fds(made, [data], ends)
            answer = made.recv(1 << 16)
            return f"refused {answer!r}" if b"refused" in answer else "hung up" if not answer else "TAKEN"
    except OSError as problem:
        return f"denied: {problem.strerror or problem}"
