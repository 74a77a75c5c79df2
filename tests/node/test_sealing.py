"""Sealing: what is sent is what was there at the call, and what no network could carry is refused with a way out."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from testbed.node.messages import DTYPES, MAX_HEADER, MOST_BUFFERS, Message, from_frames, snapshot
from testbed.node.sealing import UnsendableMessage, UnsendablePayload, sealed

F4 = np.float32
LARGEST = 1 << 20


def seal(message: Message, recipients: int = 1, largest: int = LARGEST) -> Message:
    return sealed(message, recipients, largest)


def holding(value: Any) -> Message:
    """A message with one array, or with what is none."""
    return Message("mine", 0, payload=(value,))


def saying(value: Any) -> Message:
    return Message("mine", 0, {"x": value})


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


ANY_ARRAY = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda code: arrays.arrays(
        st.sampled_from([np.dtype(f"<{code}"), np.dtype(f">{code}")]), arrays.array_shapes(min_dims=0, min_side=0)
    )
)
LAYOUTS: list[Callable[[Any], Any]] = [
    lambda values: values,
    lambda values: values.T,
    lambda values: values[::-1] if values.ndim else values,
    lambda values: np.broadcast_to(values, (2, *values.shape)),
    np.asfortranarray,
]


@given(ANY_ARRAY, st.sampled_from(LAYOUTS), st.booleans())
def test_an_array_of_any_layout_arrives_as_it_is(values: Any, layout: Callable[[Any], Any], is_sealed: bool) -> None:
    given = layout(snapshot(values) if is_sealed else values)
    (found,) = seal(holding(given)).payload
    assert (found.shape, found.tolist()) == (given.shape, given.tolist()) or np.isnan(given).any()
    assert found.dtype == given.dtype.newbyteorder("=")
    assert found.flags.c_contiguous
    message = seal(holding(given))
    (arrived,) = from_frames(as_bytes(message)).payload
    assert (arrived.dtype, arrived.shape, arrived.tobytes()) == (found.dtype, found.shape, found.tobytes())


def as_bytes(message: Message) -> list[bytes]:
    return [bytes(frame) if isinstance(frame, bytes) else frame.tobytes() for frame in message.frames()]


def read_only(values: Any) -> Any:
    """A view that cannot be written, of memory that can."""
    view = values[:]
    view.flags.writeable = False
    return view


@pytest.mark.parametrize(
    "alias",
    [
        lambda values: values,
        lambda values: values[:],
        lambda values: values[::2],
        read_only,
        lambda values: np.frombuffer(memoryview(values).toreadonly(), F4),
        torch.from_numpy,
        lambda values: torch.from_numpy(values).view(2, 4),
    ],
    ids=["itself", "view", "every-second", "read-only-view", "read-only-memory", "tensor", "tensor-view"],
)
@pytest.mark.parametrize("part", ["payload", "metadata"])
def test_nothing_that_is_changed_later_changes_what_was_sent(alias: Callable[[Any], Any], part: str) -> None:
    values = np.arange(8, dtype=F4)
    parts: Any = {part: (alias(values),)}
    message = seal(Message("mine", 0, **parts))
    (found,) = getattr(message, part)
    before = found.tobytes()
    values[:] = -1
    assert found.tobytes() == before
    assert (found >= 0).all()
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        found.flags.writeable = True


def test_the_owner_of_a_frozen_array_may_thaw_it() -> None:
    values = np.arange(8, dtype=F4)
    values.flags.writeable = False
    (found,) = seal(holding(values)).payload
    values.flags.writeable = True
    values[:] = -1
    assert found.tolist() == list(range(8))


def test_what_cannot_change_is_not_copied() -> None:
    taken = snapshot(np.arange(8, dtype=F4))
    for each in (taken, taken[2:5], taken.reshape(2, 4)):
        assert seal(holding(each)).payload[0] is each
    (arrived,) = from_frames(as_bytes(Message("mine", 0, payload=(taken,)))).payload
    assert seal(holding(arrived)).payload[0] is arrived, "as small frames arrive"


def test_lists_in_fields_are_those_of_the_call() -> None:
    ranks = [1, 2]
    fields = {"ranks": ranks}
    message = seal(Message("mine", 0, fields))
    ranks.append(3)
    fields["more"] = ranks
    assert message.fields == {"ranks": [1, 2]}
    one, another = message.delivered(), message.delivered()
    one.fields["ranks"].append(9)  # type: ignore[union-attr]
    assert another.fields == message.delivered().fields == {"ranks": [1, 2]}


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (torch.arange(6.0).reshape(2, 3), np.float32),
        (torch.arange(6.0).reshape(2, 3).t(), np.float32),
        (torch.arange(6.0, requires_grad=True), np.float32),
        (torch.nn.Parameter(torch.ones(2)), np.float32),
        (torch.ones(2, dtype=torch.float16), np.float16),
        (torch.ones(2, dtype=torch.uint8), np.uint8),
        *(
            (torch.ones(2, dtype=getattr(torch, name)), getattr(np, name))
            for name in ("int8", "int16", "int32", "int64")
        ),
    ],
)
def test_tensors_are_sent_as_their_arrays(tensor: torch.Tensor, dtype: type) -> None:
    (found,) = seal(holding(tensor)).payload
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    assert found.tolist() == tensor.tolist()


ARRAYS: list[tuple[Any, str]] = [
    (np.zeros(2), r"payload\[0\] is an array of float64, .*float32.*: send values.astype\(np.float32\)"),
    (np.zeros(2, np.longdouble), r"values.astype\(np.float32\)"),
    (np.zeros(2, bool), r"an array of bool, .*: send values.astype\(np.uint8\)"),
    (np.zeros(2, np.uint16), r"send values.astype\(np.int32\)"),
    (np.zeros(2, np.uint32), r"send values.astype\(np.int64\)"),
    (np.zeros(2, np.uint64), r"send values.view\(np.int64\)"),
    (np.zeros(2, np.complex64), r"send values.view\(np.float32\)"),
    (np.zeros(2, np.complex128), r"astype\(np.complex64\).view\(np.float32\)"),
    (np.array(["a"]), "texts in the fields"),
    (np.array([object()]), "an array of object, .*: send arrays of numbers"),
    (np.zeros(2, "f4,i4"), "send arrays of numbers"),
    (np.ma.masked_array([1.0], [True], F4), r"masked array, .*: send values.filled\(0\)"),
    ([1.0, 2.0], r"payload\[0\] is a list, not an array: send np.asarray\(values, np.float32\)"),
    (np.float32(1), "is a float32, not an array"),
    (1.0, "is a float, not an array"),
    (b"12", "is a bytes, not an array"),
    (None, "is None, not an array"),
    (torch.zeros(2, dtype=torch.float64), r"a tensor of torch.float64, .*: send tensor.float\(\)"),
    (torch.zeros(2, dtype=torch.bfloat16), r"send tensor.float\(\)"),
    (torch.zeros(2, dtype=torch.bool), r"send tensor.to\(torch.uint8\)"),
    (torch.zeros(2, dtype=torch.complex64), "an array of complex64"),
    (torch.zeros(2, device="meta"), r"a tensor on meta: send tensor.cpu\(\)"),
    (torch.zeros(2).to_sparse(), r"torch.sparse_coo\): send tensor.to_dense\(\)"),
]


@pytest.mark.parametrize(("value", "words"), ARRAYS)
def test_other_arrays_are_refused_with_the_way_out(value: Any, words: str) -> None:
    with pytest.raises(UnsendablePayload, match=words):
        seal(holding(value))
    with pytest.raises(UnsendablePayload, match=words.replace("payload", "metadata")):
        seal(Message("mine", 0, metadata=(value,)))


@pytest.mark.parametrize("part", ["payload", "metadata"])
def test_a_part_that_is_no_tuple_is_refused(part: str) -> None:
    values: Any = np.zeros(2, F4)
    listed: Any = [values]
    with pytest.raises(UnsendablePayload, match=rf"the {part} is an array, .*: write {part}=\(values,\)"):
        seal(Message("mine", 0, **{part: values}))
    with pytest.raises(UnsendablePayload, match=rf"the {part} is a list, .*: write {part}=tuple\(...\)"):
        seal(Message("mine", 0, **{part: listed}))
    with pytest.raises(UnsendablePayload, match="the payload is a Tensor"):
        seal(Message("mine", 0, payload=torch.zeros(2)))  # type: ignore[arg-type]
    with pytest.raises(UnsendablePayload, match="the payload is None"):
        seal(Message("mine", 0, payload=None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ([np.int64(3), 0.5, "a", np.bool_(False)], [3, 0.5, "a", False]),
        ([], []),
        (float("inf"), float("inf")),
        ((1 << 64) - 1, (1 << 64) - 1),
        (-(1 << 63), -(1 << 63)),
    ],
)
def test_scalars_in_fields_become_plain_values(value: Any, plain: Any) -> None:
    message = seal(saying(value))
    for each in (message, message.delivered(), from_frames(as_bytes(message))):
        found: Any = each.fields["x"]
        assert found == plain
        assert type(found) is type(plain)
        if isinstance(plain, list):
            assert list(map(type, found)) == list(map(type, plain))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(2), r"the field `x` is an array: use .item\(\) for one number, .tolist\(\) for a few"),
        (torch.zeros(1), r"a Tensor: use .item\(\)"),
        ((1, 2), "is a tuple: use a list"),
        ({1}, "is a set: use a list"),
        (b"1", r"is a bytes: use np.frombuffer\(data, np.uint8\) in the metadata"),
        (None, "is None: fields are numbers, texts"),
        ({"a": 1}, "is a dict: fields are numbers, texts"),
        (1j, "is a complex"),
        ([1, [2]], r"the field `x\[1\]` is a list: fields are"),
        ([None], r"the field `x\[0\]` is None"),
        (1 << 64, "the field `x` has more than 64 bits"),
        (-(1 << 63) - 1, "has more than 64 bits"),
        ("\ud800", "half a surrogate pair"),
        ("x" * MAX_HEADER, "kind and fields of 65[0-9]{3} bytes, .*: put long values into the metadata"),
    ],
)
def test_other_values_in_fields_are_refused_with_the_way_out(value: Any, words: str) -> None:
    with pytest.raises(UnsendableMessage, match=words):
        seal(saying(value))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (np.zeros(2, F4), "node.send takes a Message, not an array: self.sharing.encode"),
        ("hello", "takes a Message, not a str"),
        (Message(3, 0), "the kind of a message is a text, not an int"),  # type: ignore[arg-type]
        (Message(["a"], 0), "the kind of a message is a text, not a list"),  # type: ignore[arg-type]
        (Message("a", 1.0), "the round of a message is a whole number, not a float"),  # type: ignore[arg-type]
        (Message("a", True), "the round of a message is a whole number, not a bool"),
        (Message("a", None), "the round of a message is a whole number, not None"),  # type: ignore[arg-type]
        (Message("a", 1 << 64), "the round has more than 64 bits"),
        (Message("a", 0, [1]), "the fields of a message are a dict of names and values, not a list"),  # type: ignore[arg-type]
        (Message("a", 0, {3: 1}), "the name 3 of a field is an int: names are texts"),  # type: ignore[dict-item]
    ],
)
def test_what_is_no_message_is_refused(message: Any, words: str) -> None:
    with pytest.raises(UnsendableMessage, match=words):
        seal(message)


def test_a_round_may_be_numpys() -> None:
    round_: Any = np.int64(7)
    assert type(seal(Message("a", round_)).round) is int
    assert from_frames(as_bytes(seal(Message("a", round_)))).round == 7


def test_only_a_payload_has_a_degree() -> None:
    assert seal(holding(np.zeros(2, F4)), recipients=3).fields == {"degree": 3}
    assert seal(Message("a", 0, metadata=(np.zeros(2, F4),)), recipients=3).fields == {}


def test_a_message_has_the_size_that_peers_take() -> None:
    """Also when it is sent again, under a longer kind."""
    overhead = seal(Message("model", 0, payload=(np.zeros(100, np.uint8),))).nbytes - 100
    room = LARGEST - 64 - overhead - 4  # so many bytes need a longer number in the header
    most = seal(Message("model", 0, payload=(np.zeros(room, np.uint8),)))
    assert LARGEST - 70 < most.nbytes <= LARGEST - 64
    assert most.of_kind("sent-again").nbytes <= LARGEST
    with pytest.raises(UnsendableMessage, match=f"a message of 10.* bytes, a node takes at most {LARGEST - 64}: send"):
        seal(Message("model", 0, payload=(np.zeros(room + 8, np.uint8),)))


def test_a_message_has_a_number_of_arrays() -> None:
    one = np.zeros(1, F4)
    assert len(seal(Message("a", 0, payload=(one,) * (MOST_BUFFERS - 1), metadata=(one,))).payload) == MOST_BUFFERS - 1
    with pytest.raises(UnsendablePayload, match=f"{MOST_BUFFERS + 1} arrays, .* at most {MOST_BUFFERS}: join them"):
        seal(Message("a", 0, payload=(one,) * MOST_BUFFERS, metadata=(one,)))
