"""Random sampling: a random part of the parameters, another one in every message.

Every parameter is in a message with the probability `fraction`, by a seed that travels in the header: the receiver
draws the same mask again, so that no indices are sent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.node.kinds import MODEL
from testbed.node.messages import MalformedModel, Message, snapshot
from testbed.node.sharing.base import Decoded, values_of
from testbed.node.sharing.sparse import Sparse
from testbed.node.world import Vector

_MOST = 1 << 32


class RandomSampling(Sparse):
    """Sends each parameter with the same probability."""

    def encode_part(self, model: Vector, round_: int) -> Message:
        seed = self.random.getrandbits(32)
        values = model[_drawn(seed, self.fraction, model.size)]
        return Message(MODEL, round_, {"seed": seed, "fraction": self.fraction}, payload=(snapshot(values),))

    def decode(self, message: Message, parameters: int) -> Decoded:
        if "seed" not in message.fields:
            return super().decode(message, parameters)
        seed, fraction = message.fields["seed"], message.fields.get("fraction")
        if type(seed) is not int or not 0 <= seed < _MOST:
            raise MalformedModel(f"a mask with the seed {seed!r} arrived")
        if type(fraction) is not float or not 0.0 <= fraction <= 1.0:
            raise MalformedModel(f"a mask with the fraction {fraction!r} arrived")
        values = values_of(message)
        places = np.flatnonzero(_drawn(seed, fraction, parameters))
        if values.size != places.size:
            raise MalformedModel(f"{values.size} parameters arrived, their mask has {places.size}")
        return places, values


def _drawn(seed: int, fraction: float, parameters: int) -> NDArray[np.bool_]:
    """The mask, from raw bits of the generator, because only those are the same in every version of numpy."""
    raw = np.random.PCG64(seed).random_raw((parameters + 1) // 2)
    halves = np.asarray(raw, dtype="<u8").view("<u4")[:parameters]
    return halves < np.float64(fraction * _MOST)
