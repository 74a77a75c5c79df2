"""The state of an algorithm or a sharing: named arrays and plain values, and their form as bytes.

Takes states, gives bytes, and back; touches nothing. Nothing is pickled: the bytes are a checksum, a header in msgpack,
and the numbers of the arrays.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

State = Mapping[str, object]
"""By name: arrays of numbers, or plain values: numbers, texts, bytes, truth values, None, lists and dicts of these."""
NOTHING: State = MappingProxyType({})

MOST_BYTES = 1 << 31
_MOST_HEADER = 1 << 24
_MAGIC = b"testbed state 1\n"
_SIZES = 12
"""Bytes of the checksum and the header's length."""
_MOST_DEPTH = 64
"""Lists and dicts inside each other; a decoder's own limit depends on the stack."""
_PLAIN = frozenset({bool, int, float, str, bytes, type(None)})
_KEEP = "save numbers, texts, bytes, True, False, None, or lists and dicts of these, and every array by its own name"
_DTYPES = frozenset({"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"})


class UnusableState(Exception):
    """A state cannot be saved or restored; says why."""


class _Array(msgspec.Struct, array_like=True):
    part: str
    name: str
    dtype: str
    shape: list[int]


class _Header(msgspec.Struct, array_like=True):
    model: int
    """Checksum of the model that it belongs to."""
    values: dict[str, dict[str, Any]]
    arrays: list[_Array]


_DECODER = msgspec.msgpack.Decoder(_Header)


def to_bytes(parts: Mapping[str, State], model: bytes) -> bytes:
    """The states of a node's parts, by name, to be saved beside a model; raises UnusableState."""
    header = _Header(zlib.crc32(model), {}, [])
    buffers = []
    for part, state in parts.items():
        header.values[part] = {}
        for name, value in checked(state).items():
            if not isinstance(value, np.ndarray):
                header.values[part][name] = value
                continue
            header.arrays.append(_Array(part, name, value.dtype.str[1:], list(value.shape)))
            buffers.append(value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes())
    head, whose = msgspec.msgpack.encode(header), " and ".join(part for part, state in parts.items() if state)
    if len(head) > _MOST_HEADER:
        raise UnusableState(f"plain values of {whose} take {len(head)} bytes, {_MOST_HEADER} can be kept: use arrays")
    body = b"".join((len(head).to_bytes(_SIZES - 4, "little"), head, *buffers))
    size = len(_MAGIC) + 4 + len(body)
    if size > MOST_BYTES:
        raise UnusableState(f"the state of {whose} takes {size} bytes, {MOST_BYTES} can be kept")
    return b"".join((_MAGIC, zlib.crc32(body).to_bytes(4, "little"), body))


def checked(state: object) -> State:
    """The state, if it can be restored as it is; raises UnusableState, with the name of the value, if not."""
    if not isinstance(state, Mapping):
        raise UnusableState(f"`state()` must return a dict of names and values, not {type(state).__name__}")
    for name, value in state.items():
        if problem := _problem_of_name(name):
            raise UnusableState(f"the name {name!r}{problem}")
        if not isinstance(value, np.ndarray):
            if problem := _problem_of(value):
                raise UnusableState(f"`{name}`{problem}")
        elif value.dtype.str[1:] not in _DTYPES:
            raise UnusableState(f"`{name}` is an array of {value.dtype}, which cannot be kept")
    return state


def _problem_of(value: object, depth: int = 0) -> str:
    """The place inside a value, and why it would not come back as it is; empty for a plain value."""
    kind = type(value)
    items: Iterable[tuple[object, object]] = ()
    if depth > _MOST_DEPTH:
        return f" is more than {_MOST_DEPTH} levels deep"
    if kind is list and isinstance(value, list):
        items = enumerate(value)
    elif kind is dict and isinstance(value, dict):
        items = value.items()
        for key in value:
            if problem := _problem_of_name(key):
                return f" has the key {key!r}, which{problem}"
    elif kind not in _PLAIN:  # subclasses included: a plain value would come back
        return f" is {kind.__name__}, neither an array nor a plain value: {_KEEP}"
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return " is neither an array nor a plain value: it has more than 64 bits"
    elif isinstance(value, str) and not _is_unicode(value):
        return " is a text with half a surrogate pair"
    for key, each in items:
        if problem := _problem_of(each, depth + 1):
            return f"[{key!r}]{problem}"
    return ""


def _problem_of_name(name: object) -> str:
    if type(name) is not str:
        return f" is {type(name).__name__}: names and keys are texts, use str(...)"
    return "" if _is_unicode(name) else " is a text with half a surrogate pair"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def from_bytes(data: bytes, model: bytes) -> dict[str, dict[str, object]]:
    """Reads the output of `to_bytes`; arrays are writable. Raises UnusableState for damaged bytes or another model."""
    start = len(_MAGIC) + 4
    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + _SIZES:
        raise UnusableState("it does not begin as a state does")
    if zlib.crc32(data[start:]) != int.from_bytes(data[len(_MAGIC) : start], "little"):
        raise UnusableState("its checksum is wrong")
    first = len(_MAGIC) + _SIZES
    end = first + int.from_bytes(data[start:first], "little")
    try:
        header = _DECODER.decode(data[first:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise UnusableState(f"its header cannot be read: {problem}") from None
    if header.model != zlib.crc32(model):
        raise UnusableState("it belongs to another model")
    parts: dict[str, dict[str, object]] = {part: dict(values) for part, values in header.values.items()}
    for each in header.arrays:
        if each.dtype not in _DTYPES or any(side < 0 for side in each.shape):
            raise UnusableState(f"an array of type {each.dtype} and shape {each.shape}")
        dtype = np.dtype(f"<{each.dtype}")
        size = prod(each.shape) * dtype.itemsize
        if size > len(data) - end:
            raise UnusableState(f"the array `{each.name}` is cut off")
        try:
            values = np.frombuffer(data[end : end + size], dtype).reshape(each.shape)
        except (ValueError, OverflowError):
            raise UnusableState(f"an array of shape {each.shape}") from None
        parts.setdefault(each.part, {})[each.name] = values.astype(dtype.newbyteorder("="))
        end += size
    if end != len(data):
        raise UnusableState("it goes on after its last array")
    return parts


def vector_in(state: State, name: str, size: int) -> NDArray[np.float32]:
    """An array of a state with the length of the model; raises UnusableState for anything else."""
    value = state.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != np.float32 or value.shape != (size,):
        raise UnusableState(f"`{name}` is no vector of {size} float32")
    return value.copy()


def whole_number_in(state: State, name: str) -> int:
    """A value of a state that is a whole number of at least 0; raises UnusableState for anything else."""
    value = state.get(name)
    if type(value) is not int or value < 0:
        raise UnusableState(f"`{name}` is no whole number: {value!r}")
    return value


def whole_numbers_in(state: State, name: str) -> list[int]:
    """A list of whole numbers of at least 0 in a state; raises UnusableState for anything else."""
    values = state.get(name)
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise UnusableState(f"`{name}` is no list of whole numbers")
    return values
