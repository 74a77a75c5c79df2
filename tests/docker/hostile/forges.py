"""Says to its peers, over the network, what no node would: all that they listen at is one port."""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

from testbed.node.messages import Message
from testbed.node.node import Node
from testbed.node.zmq_frames import Envelope
from testbed.node.zmtp import SOCKET_PULL, SOCKET_PUSH, Opening, frame_head, opening
from testbed.runtimes.tracking.process_records import PORT

GOOD = Message("model", 1).header
_CONNECTIONS = 40


class Pickled:
    """Code that would run in a process that unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /testbed/node/unpickled",)


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:  # noqa: ARG001
    if round_ == 0:
        for name in ("good.0", "fine.0"):
            peer = node.plan.ranks.index(name)
            address = node.plan.addresses[peer]
            messages(address, node.rank, peer)
            connections(address)
        node.note("forged", "all of it")


def messages(address: str, own: int, other: int) -> None:
    """Of the right protocol, but of no node."""
    made = socket.create_connection((address, PORT), timeout=5)
    made.sendall(opening(SOCKET_PUSH))
    said = Opening(SOCKET_PULL)
    while said.rest_after(data := made.recv(4096)) is None:
        assert data, "it hung up"
    envelope = Envelope(own, 2**63, 1).packed()
    for frames in (
        (Envelope(other, 1, 1).packed(), GOOD),  # the recipient's own rank
        (Envelope(2**31, 1, 1).packed(), GOOD),
        (b"T9" + envelope[2:], GOOD),  # of another run, or another version
        (b"", b""),
        (envelope,),
        (envelope, b"\xc1nonsense"),
        (envelope, GOOD, b"a buffer that was not announced"),
        (envelope, *[GOOD] * 40),
        (envelope, pickle.dumps(Pickled())),
        (pickle.dumps(Pickled()), GOOD),
        (envelope, Message("of no kind", -(2**62), {"degree": 2**62}).header),
    ):
        for number, frame in enumerate(frames, 1):
            made.sendall(frame_head(len(frame), more=number < len(frames)) + frame)
    made.close()


def connections(address: str) -> None:
    """Another protocol, frames that say they are giants, and more connections than anybody needs."""
    held = []
    for number in range(_CONNECTIONS):
        with suppress(OSError):
            found = socket.create_connection((address, PORT), timeout=2)
            held.append(found)
            if number % 4 == 0:
                found.sendall(b"GET / HTTP/1.1\r\n\r\n")
            elif number % 4 == 1:
                found.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(52, b"\0"))
                found.sendall(b"\x02" + struct.pack(">Q", 1 << min(62, 30 + number)) + bytes(1000))
    for each in held:
        each.close()
