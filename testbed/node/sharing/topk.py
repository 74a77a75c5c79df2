"""TopK: the parameters that have changed most since they were last sent.

Alistarh et al., "The Convergence of Sparsified Gradient Methods", NeurIPS 2018, for models instead of gradients: what
training changes is accumulated, the `fraction` of the parameters with the largest accumulated change is sent, and their
accumulation begins anew. The message has the values and the indices of these parameters.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from testbed.node.kinds import MODEL
from testbed.node.messages import MalformedModel, Message, snapshot
from testbed.node.sharing.base import Decoded, values_of
from testbed.node.sharing.sparse import Sparse
from testbed.node.state import NOTHING, State, vector_in
from testbed.node.world import Vector


class TopK(Sparse):
    """Sends the parameters with the largest accumulated changes."""

    def __init__(self, random: Random, fraction: float = 0.1, dense_above: float = 0.5) -> None:
        super().__init__(random, fraction, dense_above)
        self._change = np.empty(0, np.float32)
        """Change by training since a parameter was last sent."""

    def begin(self, model: Vector) -> None:
        self._change = np.zeros_like(model)

    def trained(self, change: Vector) -> None:
        self._change += change

    def state(self) -> State:
        return NOTHING if self.dense else {"change": self._change}

    def restore(self, state: State) -> None:
        if not self.dense:
            self._change = vector_in(state, "change", self._change.size)

    def encode_part(self, model: Vector, round_: int) -> Message:
        places = largest(np.abs(self._change), round(self.fraction * model.size))
        self._change[places] = 0.0
        indices = snapshot(places.astype(np.int32))
        return Message(MODEL, round_, payload=(snapshot(model[places]),), metadata=(indices,))

    def decode(self, message: Message, parameters: int) -> Decoded:
        if not message.metadata:
            return super().decode(message, parameters)
        values, places = values_of(message), message.metadata[0]
        if len(message.metadata) != 1 or places.dtype != np.int32 or places.shape != values.shape:
            raise MalformedModel(f"{values.size} parameters arrived, with places that do not fit them")
        if places.size and not (places[0] >= 0 and places[-1] < parameters and bool((np.diff(places) > 0).all())):
            raise MalformedModel(f"the places of parameters are not ascending within 0 to {parameters - 1}")
        return places.astype(np.intp), values


def largest(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """The indices of the `count` largest values, ascending; of equal ones the first."""
    if count >= values.size:
        return np.arange(values.size)
    if count <= 0:
        return np.empty(0, np.intp)
    least = values[np.argpartition(values, values.size - count)[values.size - count]]
    above = np.flatnonzero(values > least)
    ties = np.flatnonzero(values == least)[: count - above.size]
    return np.sort(np.concatenate((above, ties)))
