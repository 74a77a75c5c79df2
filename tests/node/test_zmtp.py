"""Frames of ZeroMQ's protocol, however they are cut up on the way, and openings that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.node.messages import Message
from testbed.node.zmq_frames import FramedMessage
from testbed.node.zmtp import (
    SCRATCH_BYTES,
    SOCKET_PULL,
    SOCKET_PUSH,
    ForeignProtocol,
    FrameReader,
    FrameTooLarge,
    MessageTooLarge,
    Opening,
    frame_head,
    opening,
)

LARGEST_FRAME, LARGEST_MESSAGE, MOST_FRAMES = 20_000, 50_000, 4


class Taken:
    """A reader and the messages that it has delivered."""

    def __init__(self) -> None:
        self.messages: list[list[bytes]] = []
        self.reader = FrameReader(
            memoryview(bytearray(SCRATCH_BYTES)),
            lambda frames: self.messages.append([bytes(frame) for frame in frames]),
            largest_frame=LARGEST_FRAME,
            largest_message=LARGEST_MESSAGE,
            most_frames=MOST_FRAMES,
        )

    def take(self, data: bytes, most: int = 1 << 30) -> None:
        """Reads as from a socket that has at most so many bytes at a time."""
        while data:
            room = self.reader.room()
            count = min(len(room), len(data), most)
            room[:count] = data[:count]
            data = data[count:]
            self.reader.got(count)


def on_the_wire(message: list[bytes]) -> bytes:
    heads = [frame_head(len(frame), more=number < len(message)) for number, frame in enumerate(message, 1)]
    return b"".join(head + frame for head, frame in zip(heads, message, strict=True))


frames = st.integers(0, 600).map(lambda size: bytes(number % 251 for number in range(size))) | st.integers(
    4000, 9000
).map(lambda size: b"x" * size)
messages = st.lists(frames, min_size=1, max_size=MOST_FRAMES)


@given(st.lists(messages, max_size=4), st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_messages_arrive_whole_however_they_are_cut_up(sent: list[list[bytes]], cuts: list[int]) -> None:
    taken, data = Taken(), b"".join(map(on_the_wire, sent))
    number = 0
    while data:
        size = cuts[number % len(cuts)]
        taken.take(data[:size], most=size)
        data = data[size:]
        number += 1
    assert taken.messages == sent
    assert taken.reader.missing == 0


def test_what_a_large_frame_still_needs_is_known() -> None:
    taken = Taken()
    taken.take(frame_head(10_000, more=False) + bytes(100))
    assert taken.reader.missing == 9900
    assert len(taken.reader.room()) == 9900


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (frame_head(LARGEST_FRAME + 1, more=False), FrameTooLarge),
        (frame_head(1 << 62, more=False), FrameTooLarge),
        (on_the_wire([bytes(LARGEST_FRAME)] * 3), MessageTooLarge),
        (b"\x04\x05READY", ForeignProtocol),
        (b"GET / HTTP/1.1\r\n", ForeignProtocol),
    ],
)
def test_what_breaks_the_limits_or_the_protocol_ends_the_reading(data: bytes, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        Taken().take(data)


def test_of_too_many_frames_only_one_more_is_kept() -> None:
    taken = Taken()
    taken.take(on_the_wire([b"x"] * 1000))
    assert taken.messages == [[b"x"] * (MOST_FRAMES + 1)]


@pytest.mark.parametrize("cut", [1, 10, 63, 64, 66, 80, 1000])
def test_an_opening_ends_where_messages_begin(cut: int) -> None:
    said, data = Opening(SOCKET_PUSH), opening(SOCKET_PUSH) + b"and more"
    found = said.rest_after(data[:cut])
    if found is None:
        found = said.rest_after(data[cut:])
    assert found == b"and more"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" + bytes(8) + b"\x7f\x02",  # an earlier version
        opening(SOCKET_PUSH).replace(b"NULL", b"CURV"),
        opening(SOCKET_PUSH).replace(b"READY", b"ERROR"),
        opening(SOCKET_PULL),
    ],
)
def test_other_openings_are_foreign(data: bytes) -> None:
    with pytest.raises(ForeignProtocol):
        Opening(SOCKET_PUSH).rest_after(data)


def test_arrays_are_written_from_where_they_are() -> None:
    values = np.ones((2, 3), np.float32)
    framed = FramedMessage(Message("model", 1, payload=(values,)))
    assert np.shares_memory(np.frombuffer(framed.buffers[-1], np.uint8), values)
    assert FramedMessage(Message("model", 1, payload=(values[:0],))).buffers[-1] == b""
