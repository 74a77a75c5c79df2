"""Streams: datagrams at a steady rate, and TCP at full speed.

Takes orders, gives answers; touches sockets of the process's network namespace.
"""

from __future__ import annotations

import select
import socket
import struct
from contextlib import ExitStack, suppress
from time import monotonic

from testbed.verify.probe_protocol import (
    DatagramsReceived,
    DatagramsSent,
    ReceiveDatagrams,
    SendDatagrams,
    TcpReceive,
    TcpReceived,
    TcpSend,
    TcpSent,
)
from testbed.verify.probes import HEADERS_BYTES, WhenReady
from testbed.verify.sockets import listener, overflows, receiver, sleep_until, take, wait_until

_STAMP = struct.Struct("!d")
_BURST_S = 0.001
"""Time between bursts when the rate is high."""
_MOST_DELAYS = 4_000
_BLOCK = bytes(1 << 18)
_CONNECT_S = 10.0
_TURNS = 200


def send(order: SendDatagrams, begin: WhenReady) -> DatagramsSent:
    """Sends at the rate asked for, or slower where this machine is too slow; never faster."""
    padding = bytes(order.size_bytes - HEADERS_BYTES - _STAMP.size)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        dests = [(order.dest, port) for port in order.ports]
        sleep_until(begin())
        began_s = monotonic()
        sent = 0
        while sent < order.count:
            due = min(order.count, int((monotonic() - began_s) * order.per_s) + 1)
            for number in range(sent, due):
                own.sendto(_STAMP.pack(monotonic()) + padding, dests[number % len(dests)])
            sent = max(sent, due)
            sleep_until(max(began_s + sent / order.per_s, monotonic() + _BURST_S / 4))
        return DatagramsSent(order.number, sent, monotonic() - began_s)


def receive(order: ReceiveDatagrams, begin: WhenReady) -> DatagramsReceived:
    """Counts on several sockets, which hold more than one while this process waits for the processor."""
    packets = settled = 0
    first_s = last_s = 0.0
    delays: list[float] = []
    with ExitStack() as stack:
        own = [stack.enter_context(receiver(port)) for port in order.ports]
        poll = select.epoll()
        stack.callback(poll.close)
        by_number = {each.fileno(): each for each in own}
        for each in own:
            each.setblocking(False)
            poll.register(each, select.EPOLLIN)
        before = overflows()
        start_s = begin()
        settled_s, until_s = start_s + order.settled_s, start_s + order.until_s
        while packets < order.count and (left_s := until_s - monotonic()) > 0:
            for number, _ in poll.poll(left_s):
                with suppress(BlockingIOError):
                    for _ in range(_TURNS):
                        data, now_s, _ = take(by_number[number])
                        packets += 1
                        if now_s < settled_s:
                            continue
                        settled += 1
                        first_s, last_s = first_s or now_s, now_s
                        if len(delays) < _MOST_DELAYS:
                            delays.append(now_s - _STAMP.unpack_from(data)[0])
    return DatagramsReceived(order.number, packets, overflows() - before, settled, last_s - first_s, tuple(delays))


def tcp_send(order: TcpSend, begin: WhenReady) -> TcpSent:
    start_s = begin()
    until_s = start_s + order.until_s
    sleep_until(start_s)
    # Not `create_connection`: name lookup loads modules, which this process may no longer be allowed to read.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
        own.settimeout(_CONNECT_S)
        own.connect((order.dest, order.port))
        congestion = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        with suppress(OSError):
            while monotonic() < until_s:
                own.settimeout(max(0.001, until_s - monotonic()))
                own.send(_BLOCK)
        return TcpSent(order.number, congestion)


def tcp_receive(order: TcpReceive, begin: WhenReady) -> TcpReceived:
    """Average rate over the whole interval, so that a stalled stream counts as slow."""
    buffer = bytearray(1 << 20)
    received = 0
    with listener(order.port) as door:
        start_s = begin()
        settled_s, until_s = start_s + order.settled_s, start_s + order.until_s
        if not wait_until(door, until_s):
            return TcpReceived(order.number, 0.0)
        own, _ = door.accept()
        with own:
            while (now_s := monotonic()) < until_s and wait_until(own, until_s):
                size = own.recv_into(buffer)
                if not size:
                    break
                if now_s >= settled_s:
                    received += size
    return TcpReceived(order.number, received * 8 / (order.until_s - order.settled_s))
