"""Sealing: a message as it is at the call of `Node.send`, whatever happens to its parts afterwards.

Takes a message as an algorithm made it, gives an immutable one; touches nothing. What the wire cannot carry is refused
here, at the line that sends it, in every runtime. An array is shared only if its memory can never change; every other
one is copied, once for all recipients.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from testbed.node.messages import DTYPES, MAX_HEADER, MOST_BUFFERS, Buffer, Field, Message, Scalar, snapshot

_SPARE_BYTES = 64
"""The header of a model that is sent again has a longer kind."""
_CANNOT = "which is not sent (float32, float16, int8, int16, int32, int64 and uint8 are)"
_WAYS_OUT = {
    "b1": "send values.astype(np.uint8)",
    "f8": "send values.astype(np.float32)",
    "f16": "send values.astype(np.float32)",
    "u2": "send values.astype(np.int32)",
    "u4": "send values.astype(np.int64)",
    "u8": "send values.view(np.int64), and view what arrives as np.uint64",
    "c8": "send values.view(np.float32), and view what arrives as np.complex64",
    "c16": "send values.astype(np.complex64).view(np.float32), and view what arrives as np.complex64",
}
"""By numpy's name of the type, without the order of bytes."""
_TENSOR_WAYS_OUT = {
    "torch.float64": "send tensor.float()",
    "torch.bfloat16": "send tensor.float()",
    "torch.bool": "send tensor.to(torch.uint8)",
}


class UnsendableMessage(TypeError):
    """A message that no network could carry as it is; says what to do about it."""


class UnsendablePayload(UnsendableMessage):
    """The payload or the metadata are not a tuple of arrays of the types that can be sent."""


def sealed(message: Message, recipients: int, largest: int) -> Message:
    """The message as it is now, which nothing can change any more; with a payload, `degree` is added to its fields.

    `largest` is the size of the largest message that a node takes, in bytes. Raises UnsendableMessage.
    """
    _check_is_message(message)
    payload, metadata = _arrays("payload", message.payload), _arrays("metadata", message.metadata)
    fields = _fields(message.fields)
    if payload:
        fields["degree"] = recipients
    found = Message(_kind(message.kind), _round(message.round), MappingProxyType(fields), payload, metadata)
    _check_size(found, largest)
    return found


def _check_is_message(value: object) -> None:
    if not isinstance(value, Message):
        way_out = "self.sharing.encode(model, round) or Message(kind, round, payload=(values,)) makes one"
        raise UnsendableMessage(f"node.send takes a Message, not {_article(value)}: {way_out}")


def _check_size(message: Message, largest: int) -> None:
    buffers = len(message.payload) + len(message.metadata)
    if buffers > MOST_BUFFERS:
        way_out = "join them with np.concatenate"
        raise UnsendablePayload(f"a message of {buffers} arrays, a node takes at most {MOST_BUFFERS}: {way_out}")
    try:
        header = len(message.header)
    except UnicodeEncodeError:
        raise UnsendableMessage("a text in the kind or the fields has half a surrogate pair") from None
    if header > MAX_HEADER - _SPARE_BYTES:
        way_out = "put long values into the metadata, as arrays"
        raise UnsendableMessage(f"kind and fields of {header} bytes, a node takes at most 65 kB: {way_out}")
    if message.nbytes > largest - _SPARE_BYTES:
        most = largest - _SPARE_BYTES
        raise UnsendableMessage(f"a message of {message.nbytes} bytes, a node takes at most {most}: send it in parts")


# -- payload and metadata ------------------------------------------------------------------------------------------


def _arrays(part: str, values: object) -> tuple[Buffer, ...]:
    if isinstance(values, list):
        raise UnsendablePayload(f"the {part} is a list, not a tuple: write {part}=tuple(...)")
    if not isinstance(values, tuple):
        raise UnsendablePayload(f"the {part} is {_article(values)}, not a tuple of arrays: write {part}=(values,)")
    return tuple([_array(f"{part}[{place}]", each) for place, each in enumerate(values)])


def _array(place: str, value: object) -> Buffer:
    values = _as_numpy(place, value)
    kind = values.dtype.str[1:]
    if kind not in DTYPES:
        way_out = _WAYS_OUT.get(kind, "send arrays of numbers, and texts in the fields")
        raise UnsendablePayload(f"{place} is an array of {values.dtype}, {_CANNOT}: {way_out}")
    if values.dtype.isnative and values.flags.c_contiguous and _can_never_change(values):
        return values
    return snapshot(values.astype(values.dtype.newbyteorder("="), copy=False))


def _as_numpy(place: str, value: object) -> Buffer:
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise UnsendablePayload(f"{place} is a masked array, whose mask would be lost: send values.filled(0)")
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    torch = sys.modules.get("torch")  # what has not been imported has made no tensor
    if torch is None or not isinstance(value, torch.Tensor):
        way_out = "send np.asarray(values, np.float32)"
        raise UnsendablePayload(f"{place} is {_article(value)}, not an array: {way_out}")
    if value.device.type != "cpu":
        raise UnsendablePayload(f"{place} is a tensor on {value.device}: send tensor.cpu()")
    kind = str(value.dtype)
    if kind in _TENSOR_WAYS_OUT:
        raise UnsendablePayload(f"{place} is a tensor of {kind}, {_CANNOT}: {_TENSOR_WAYS_OUT[kind]}")
    try:
        return np.asarray(value.detach().numpy())
    except (TypeError, RuntimeError):  # sparse, quantized, or one whose sign is applied later
        way_out = "send tensor.to_dense().resolve_neg()"
        raise UnsendablePayload(f"{place} is a tensor that is no plain array ({value.layout}): {way_out}") from None


def _can_never_change(values: Buffer) -> bool:
    """Whether the memory is that of `bytes`. Other memory may be written through an array that is not seen here."""
    owner: object = values
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, bytes)


# -- kind, round and fields ----------------------------------------------------------------------------------------


def _kind(value: object) -> str:
    if not isinstance(value, str):
        raise UnsendableMessage(f"the kind of a message is a text, not {_article(value)}")
    return str.__str__(value)


def _round(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UnsendableMessage(f"the round of a message is a whole number, not {_article(value)}")
    return _whole("the round", int(value))


def _fields(fields: object) -> dict[str, Field]:
    if not isinstance(fields, Mapping):
        raise UnsendableMessage(f"the fields of a message are a dict of names and values, not {_article(fields)}")
    found: dict[str, Field] = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise UnsendableMessage(f"the name {name!r} of a field is {_article(name)}: names are texts, use str(...)")
        if isinstance(value, list):
            found[str.__str__(name)] = [_scalar(f"{name}[{place}]", each) for place, each in enumerate(value)]
        else:
            found[str.__str__(name)] = _scalar(name, value)
    return found


def _scalar(name: str, value: object) -> Scalar:
    """A plain value; subclasses, such as numpy's scalars and enums, become what they are."""
    match value:
        case bool() | np.bool_():
            return bool(value)
        case int() | np.integer():
            return _whole(f"the field `{name}`", int(value))
        case float() | np.floating():
            return float(value)
        case str():
            return str.__str__(value)
    raise UnsendableMessage(f"the field `{name}` is {_article(value)}: {_way_out_of_field(value)}")


def _way_out_of_field(value: object) -> str:
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        return "use .item() for one number, .tolist() for a few, and the payload or the metadata for many"
    if isinstance(value, tuple | set | frozenset | range):
        return "use a list"
    if isinstance(value, bytes | bytearray | memoryview):
        return "use np.frombuffer(data, np.uint8) in the metadata"
    return "fields are numbers, texts, True, False, and lists of these"


def _whole(what: str, value: int) -> int:
    if not -(1 << 63) <= value < 1 << 64:
        raise UnsendableMessage(f"{what} has more than 64 bits: use a float or a text")
    return value


def _article(value: object) -> str:
    """The type of a value, as part of a sentence."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return "an array"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
