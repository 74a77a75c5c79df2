"""Messages and their frames: nothing is lost on the way, and no bytes whatever do harm."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from testbed.node.messages import DTYPES, MalformedMessage, Message, from_frames, snapshot
from testbed.records import Count

BUFFERS = st.one_of(
    *(
        arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        for dtype in DTYPES.values()
    )
)
FIELDS = st.dictionaries(
    st.text(max_size=6),
    st.one_of(
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.booleans(),
        st.lists(
            st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=5), st.booleans()),
            max_size=4,
        ),
    ),
    max_size=4,
)


def over_the_wire(message: Message) -> Message:
    return from_frames([bytes(frame) if isinstance(frame, bytes) else frame.tobytes() for frame in message.frames()])


@given(st.text(max_size=8), st.integers(0, 2**40), FIELDS, st.lists(BUFFERS, max_size=3), st.lists(BUFFERS, max_size=2))
def test_what_arrives_is_what_was_sent(
    kind: str, round_: int, fields: dict[str, int], payload: list[np.ndarray], metadata: list[np.ndarray]
) -> None:
    sent = Message(kind, round_, fields, tuple(payload), tuple(metadata))
    arrived = over_the_wire(sent)
    assert (arrived.kind, arrived.round, arrived.fields) == (kind, round_, fields)
    for ours, theirs in ((sent.payload, arrived.payload), (sent.metadata, arrived.metadata)):
        assert [(each.dtype, each.shape, each.tobytes()) for each in ours] == [
            (each.dtype, each.shape, each.tobytes()) for each in theirs
        ]
    assert arrived.size == sent.size


def test_every_byte_on_the_wire_is_counted_once() -> None:
    message = Message("model", 3, {"degree": 5}, (np.zeros(7, np.float32),), (np.zeros(7, np.int32),))
    assert sum(len(bytes(frame)) for frame in message.frames()) == message.nbytes
    assert message.size == Count(payload=28, metadata=28 + len(message.header), control=0, messages=1)
    bare = Message("ask", 3)
    assert bare.size == Count(payload=0, metadata=0, control=len(bare.header), messages=1)


def test_headers_are_small() -> None:
    """A model's whole overhead; a longer word or field would cost every message of every run."""
    assert len(Message("model", 100, {"degree": 5}, (np.zeros(89834, np.float32),)).header) <= 32


def test_a_snapshot_stays_what_it_was() -> None:
    model = np.arange(4, dtype=np.float32)
    taken = snapshot(model)
    model += 1
    assert taken.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        taken[0] = 9


def test_what_arrives_is_read_only() -> None:
    arrived = over_the_wire(Message("model", 0, payload=(np.zeros(3, np.float32),)))
    with pytest.raises(ValueError, match="read-only"):
        arrived.payload[0][0] = 1


@given(st.lists(st.binary(max_size=40), max_size=4))
@example([b"\x95\xa1\xff\x00\x80\x90\x00"])
def test_any_bytes_are_a_message_or_malformed(frames: list[bytes]) -> None:
    with suppress(MalformedMessage):
        from_frames(frames)


CODES = [*DTYPES, "O8", "f8", ""]
NUMBERS = st.one_of(st.integers(-3, 5), st.sampled_from([2**31, 2**62, -(2**63)]))


@given(
    st.lists(st.tuples(st.sampled_from(CODES), st.lists(NUMBERS, max_size=70)), max_size=3),
    NUMBERS,
    st.lists(st.binary(max_size=16), max_size=3),
)
def test_any_header_is_a_message_or_malformed(
    buffers: list[tuple[str, list[int]]], payload: int, rest: list[bytes]
) -> None:
    header = msgspec.msgpack.encode(("model", 0, {}, buffers, payload))
    try:
        message = from_frames([header, *rest])
    except MalformedMessage:
        return
    assert sum(each.nbytes for each in (*message.payload, *message.metadata)) == sum(map(len, rest))
