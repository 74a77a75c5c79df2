"""Checks whether this machine lets a node have its own network. Takes nothing, gives what it denies, if anything.

Leaves nothing behind: a child process tries every step and ends.
"""

from __future__ import annotations

import os

import msgspec

from testbed.engines.denied import NetworkDenied
from testbed.engines.device import NodeDevice, make_device
from testbed.engines.namespace import TcpSettings, enter_namespace
from testbed.engines.steps import Step

_MOST = 4096


class _Denial(msgspec.Struct):
    step: Step
    reason: str
    number: int


def what_is_denied(tcp: TcpSettings, address: str = "198.18.0.1") -> NetworkDenied | None:
    """The first step that this machine denies; None if it denies none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _try(tcp, address, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read(_MOST)
    os.waitpid(child, 0)
    if not answer:
        return NetworkDenied(Step.NAMESPACE, "the process that tried it ended without an answer")
    if answer == b"ok":
        return None
    denied = msgspec.json.decode(answer, type=_Denial)
    return NetworkDenied(denied.step, denied.reason, denied.number)


def _try(tcp: TcpSettings, address: str, writing: int) -> None:
    try:
        enter_namespace(tcp)
        os.close(make_device(NodeDevice(address, tcp.congestion, tcp.time_scale)))
    except NetworkDenied as denied:
        os.write(writing, msgspec.json.encode(_Denial(denied.step, denied.reason[:1000], denied.number)))
    else:
        os.write(writing, b"ok")
