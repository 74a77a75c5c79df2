"""Algorithms that send what is easily sent by mistake: what others would change on its way, and what is no message."""

from __future__ import annotations

import json
from typing import Any

SENDS = """\
import json

import numpy as np
import torch

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Sends(Algorithm):
    \"\"\"Everything sent is changed by its sender right after the call, and by everyone who receives it.\"\"\"

    async def run(self, node):
        async for round_ in node.rounds():
            before = node.model.copy()
            grid = np.arange(12, dtype=np.int8).reshape(3, 4)
            values, wide = np.arange(3, dtype=np.float32), np.arange(3, dtype=">i2")
            tensor = torch.arange(3, dtype=torch.float16, requires_grad=True)
            ranks, fields = [np.int64(1), 2.5], {"count": np.int64(7), "share": np.float32(0.5), "is": np.bool_(True)}
            fields["list"] = ranks
            message = Message("mine", np.int64(round_), fields, (node.model, grid[:, ::2], tensor), (values, wide))
            await node.send(range(4), message)
            node.model += 1
            for each in (grid, values, wide):
                each[:] = -1
            with torch.no_grad():
                tensor.fill_(-1)
            ranks.append(9)
            fields["count"] = -1
            for received in await node.gather(range(4), round_, "mine"):
                model, *others = (*received.message.payload, *received.message.metadata)
                told = [[str(each.dtype), each.tolist()] for each in others]
                node.note("received", json.dumps([received.sender, dict(received.message.fields), told]))
                node.note("model", str(np.array_equal(model, before)))
                received.message.fields["list"].append("changed by a receiver")
                try:
                    model[0] = 9
                except ValueError as problem:
                    node.note("written", str(problem))
"""

ARRAYS = [
    ["int8", [[0, 2], [4, 6], [8, 10]]],
    ["float16", [0.0, 1.0, 2.0]],
    ["float32", [0.0, 1.0, 2.0]],
    ["int16", [0, 1, 2]],
]
FIELDS = {"count": 7, "share": 0.5, "is": True, "list": [1, 2.5], "degree": 4}


def received_from(sender: int) -> str:
    """The note about a message of this sender."""
    told: list[Any] = [sender, FIELDS, ARRAYS]
    return json.dumps(told)


_REFUSED = """\
import numpy as np
import torch

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message


class Sends(Algorithm):
    async def run(self, node):
        async for round_ in node.rounds():
            await node.send(node.others, {message})
"""
REFUSED_LINE = 11


def refused_algorithm(message: str) -> str:
    """An algorithm that sends this, at `REFUSED_LINE`."""
    return _REFUSED.format(message=message)


REFUSED = {
    "float64": ("Message('mine', 0, payload=(np.zeros(3),))", "payload[0] is an array of float64", "np.float32)"),
    "tensor": ("Message('mine', 0, payload=(torch.zeros(3).double(),))", "a tensor of torch.float64", ".float()"),
    "array": ("Message('mine', 0, payload=node.model)", "the payload is an array", "write payload=(values,)"),
    "field": ("Message('mine', 0, {'x': node.model})", "the field `x` is an array", "the payload or the metadata"),
    "round": ("Message('mine', 1.5)", "the round of a message is a whole number", "not a float"),
    "large": ("Message('mine', 0, payload=(np.zeros(17 << 20, np.float32),))", "71303", "send it in parts"),
}
"""What is sent, and words of the failure: what is wrong, and the way out."""
