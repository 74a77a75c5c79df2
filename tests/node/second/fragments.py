"""Fragments of a model, for second implementations.

Which parameters are in a fragment is random, so it is found out: by the first message with a seed and a part, from the
places at which its values stand in the model that the formula gives. From then on it is known. All fragments of a seed
must be disjoint, complete, and as large as each other.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tests.node.second.beside import Values
from tests.node.second.trace import Posted

SAME = 1e-6
"""A value is at a place if it differs by less; the error of float32 is a tenth of that."""
Places = NDArray[np.intp]


class Cut:
    """How models are cut, by seed."""

    def __init__(self, parts: int, parameters: int) -> None:
        self.parts, self.parameters = parts, parameters
        self._places: dict[tuple[int, int], Places] = {}

    @property
    def seeds(self) -> set[int]:
        return {seed for seed, _ in self._places}

    def see(self, post: Posted, model: Values) -> None:
        """Finds out where the values of a message stand, if that is not known."""
        if self._which(post) not in self._places:
            assert post.message.fields["parts"] == self.parts
            distances = np.abs(post.message.payload[0].view(np.float32)[:, None] - model[None, :])
            found = (distances < SAME).sum(axis=1)
            assert (found > 0).all(), "values that are not in the model"
            assert (found == 1).all(), "two parameters are too close to be told apart: choose another seed"
            self._places[self._which(post)] = distances.argmin(axis=1)

    def places(self, post: Posted) -> Places:
        return self._places[self._which(post)]

    def all_places(self) -> list[Places]:
        """By part, if all models are cut alike."""
        (seed,) = self.seeds
        return [self._places[seed, part] for part in range(self.parts)]

    def is_complete(self) -> None:
        sizes = {self.parameters // self.parts, -(-self.parameters // self.parts)}
        for seed in self.seeds:
            found = [self._places[seed, part] for part in range(self.parts)]
            assert {len(places) for places in found} <= sizes
            assert sorted(np.concatenate(found)) == list(range(self.parameters))

    def _which(self, post: Posted) -> tuple[int, int]:
        """The seed and the number of a fragment; with more numbers than fragments they begin anew."""
        seed = post.message.fields["seed"]
        assert isinstance(seed, int)
        return seed, number_of(post) % self.parts


def number_of(post: Posted) -> int:
    part = post.message.fields["part"]
    assert isinstance(part, int)
    return part


def average(model: Values, fragments: Iterable[tuple[Places, Values]]) -> Values:
    """Each parameter's mean over the own value and all that came."""
    total, count = model.copy(), np.ones_like(model)
    for places, values in fragments:
        total[places] += values
        count[places] += 1
    return total / count
