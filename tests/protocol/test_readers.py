"""Every door of a run takes any bytes: they are a message, or a `ProtocolError`."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.control.commands import _COMMANDS, _REPLIES
from testbed.protocol.fabric import FROM_FABRIC, FROM_FABRIC_TO_NODE, FROM_NODE_TO_FABRIC, TO_FABRIC
from testbed.protocol.message import ProtocolError, Reader
from testbed.protocol.nodes import FROM_NODE, TO_NODE
from testbed.protocol.zygote import FROM_ZYGOTE, TO_ZYGOTE
from testbed.runtimes.containers.supervisor_messages import FROM_SUPERVISOR, TO_SUPERVISOR
from tests.examples import examples

READERS: dict[str, Reader[object]] = {
    "commands": _COMMANDS,  # type: ignore[dict-item]
    "replies": _REPLIES,  # type: ignore[dict-item]
    "from nodes": FROM_NODE,  # type: ignore[dict-item]
    "to nodes": TO_NODE,  # type: ignore[dict-item]
    "from zygote": FROM_ZYGOTE,  # type: ignore[dict-item]
    "to zygote": TO_ZYGOTE,  # type: ignore[dict-item]
    "to fabric": TO_FABRIC,  # type: ignore[dict-item]
    "from fabric": FROM_FABRIC,  # type: ignore[dict-item]
    "from fabric to node": FROM_FABRIC_TO_NODE,  # type: ignore[dict-item]
    "from node to fabric": FROM_NODE_TO_FABRIC,  # type: ignore[dict-item]
    "from supervisor": FROM_SUPERVISOR,  # type: ignore[dict-item]
    "to supervisor": TO_SUPERVISOR,  # type: ignore[dict-item]
}
TAGS = (
    "hello",
    "ready",
    "recorded",
    "left",
    "overrun",
    "unable",
    "halt",
    "fork",
    "judge",
    "inject",
    "setlink",
    "\ud800",
)


def packed(value: object) -> bytes:
    """MessagePack of what a learner could build by hand, strings that are no UTF-8 included."""
    match value:
        case bytes():
            return bytes([0xA0 | len(value)]) + value  # a string, whatever bytes it has
        case dict():
            return bytes([0x80 | len(value)]) + b"".join(packed(each) for pair in value.items() for each in pair)
        case list():
            return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
        case _:
            return msgspec.msgpack.encode(value)


SHORT_STRINGS = st.one_of(
    st.binary(max_size=12), st.sampled_from([each.encode(errors="surrogatepass") for each in TAGS])
)
KEYS = st.one_of(st.sampled_from([b"type", b"rank", b"reason", b"ranks", b"action", b"record"]), SHORT_STRINGS)
LEAVES = st.one_of(SHORT_STRINGS, st.integers(-(2**63), 2**64 - 1), st.floats(), st.booleans(), st.none())
VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)), max_leaves=8
)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81\xa4type\xa1\xaa",  # the name of a kind that is no UTF-8
        b"\x82\xa4type\xa5hello\xa4rank\xa1\xff",
        b"\x81\xa1\xff\x01",  # a key
        b"\x91" * 60_000,
        b"\xc1",
    ],
)
def test_what_is_no_message_is_an_error_of_the_protocol(reader: Reader[object], data: bytes) -> None:
    with pytest.raises(ProtocolError):
        reader.read(data)


@settings(max_examples=examples(100), deadline=None)
@given(st.one_of(st.binary(max_size=200), VALUES.map(packed)))
def test_any_bytes_are_a_message_or_an_error_of_the_protocol(data: bytes) -> None:
    for reader in READERS.values():
        try:
            reader.read(data)
        except ProtocolError as problem:
            assert str(problem)
