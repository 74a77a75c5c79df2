"""What cannot be sent ends the node that sends it, with the place in its own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.records import Failure
from tests.node.small_world import World, ring

OWN = '''
import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message
from testbed.node.sharing.base import MODEL, Sharing


class Doubles(Sharing):
    def encode(self, model, round_):
        return Message(MODEL, round_, payload=(model.astype(np.float64),))


class Aliases(Sharing):
    """Forgets to copy."""

    def encode(self, model, round_):
        return Message(MODEL, round_, payload=(model,))


class Large(Algorithm):
    async def run(self, node):
        await node.send(node.others, Message("mine", 0, payload=(np.zeros(16 << 20, np.float32),)))


class Itself(Algorithm):
    """Sends to itself."""

    async def run(self, node):
        values = np.zeros(2, np.float32)
        fields = {"list": [1]}
        await node.send(node.rank, Message("mine", 0, fields, payload=(values,)))
        values[:] = 1
        fields["list"].append(2)
        received = node.arrived("mine")[0].message
        assert received.payload[0].tolist() == [0, 0]
        assert received.fields == {"list": [1], "degree": 1}
'''


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return f"{file}:"


def failure_of(world: World) -> Failure:
    failure = world.run().end(0).failure
    assert failure is not None
    return failure


def test_a_sharing_that_encodes_what_cannot_be_sent_is_named(own: str) -> None:
    failure = failure_of(World(2, graph=ring(2), experiment={"sharing": own + "Doubles"}))
    assert failure.file == "own.py"
    assert "payload[0] is an array of float64" in failure.message
    assert "send values.astype(np.float32) (UnsendablePayload)" in failure.message


def test_a_sharing_that_forgets_to_copy_shares_the_same(own: str) -> None:
    aliased = World(3, graph=ring(3), experiment={"sharing": own + "Aliases"}).run()
    copied = World(3, graph=ring(3)).run()
    assert [each.tobytes() for each in aliased.models] == [each.tobytes() for each in copied.models]


def test_a_message_that_no_peer_would_take_is_not_sent(own: str) -> None:
    failure = failure_of(World(2, graph=ring(2), algorithm={"name": own + "Large"}))
    line = next(number for number, each in enumerate(OWN.splitlines(), start=1) if "16 << 20" in each)
    assert (failure.file, failure.line) == ("own.py", line)
    assert "a message of 67108892 bytes, a node takes at most 67108800: send it in parts" in failure.message


def test_a_message_to_oneself_is_sealed_too(own: str) -> None:
    assert World(2, graph=ring(2), algorithm={"name": own + "Itself"}).run().end(0).failure is None
