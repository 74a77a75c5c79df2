"""Fragments: models cut into parts, each of which travels in a message of its own.

Takes models and messages, gives messages and averages; touches nothing. All nodes of a run cut alike, so messages need
no indices: one permutation of all parameters, from the run's seed, is split into parts that differ by one parameter at
most. Layers are not told apart, so that every part has some of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from testbed.node.kinds import FRAGMENT, PART
from testbed.node.messages import MalformedModel, Message, Received, UnusableModel, snapshot
from testbed.node.sharing.base import usable, values_of
from testbed.node.world import Vector
from testbed.seeds import derive

RESEEDS = ("never", "round")
"""When models are cut anew: the permutation stays for the whole run, or every round has its own."""

Places = NDArray[np.intp]
"""Indices of parameters, ascending."""
_SEED_BITS = 32


class Fragmentation:
    """How the models of a run are cut."""

    def __init__(self, parameters: int, parts: int, run_seed: int, reseed: str = "never") -> None:
        if reseed not in RESEEDS:
            raise ValueError(f"reseed is one of {', '.join(RESEEDS)}, not {reseed!r}")
        self.parts = max(1, min(parts, parameters))
        """At most one for each parameter."""
        self._parameters = parameters
        self._run_seed = run_seed
        self._reseed = reseed

    def cut(self, model: Vector, round_: int) -> list[Message]:
        """The fragments of a model as it is now, one immutable message each."""
        seed = self._seed(round_)
        fields = [{PART: part, "parts": self.parts, "seed": seed} for part in range(self.parts)]
        places = partition(seed, self._parameters, self.parts)
        return [
            Message(FRAGMENT, round_, about, payload=(snapshot(model[its]),))
            for about, its in zip(fields, places, strict=True)
        ]

    def decode(self, message: Message) -> tuple[Places, Vector]:
        """Which parameters a message holds, and their values; raises MalformedModel unless it was cut in this way."""
        fields, seed = message.fields, self._seed(message.round)
        part, parts = fields.get(PART), fields.get("parts")
        if type(part) is not int or not 0 <= part < self.parts or type(parts) is not int or parts != self.parts:
            raise MalformedModel(f"fragment {part!r} of {parts!r} arrived, models have {self.parts} here")
        if fields.get("seed") != seed:
            raise MalformedModel(
                f"a fragment by the seed {fields.get('seed')!r} arrived, models are cut by {seed} here"
            )
        values, places = values_of(message), partition(seed, self._parameters, self.parts)[part]
        if values.size != places.size:
            raise MalformedModel(f"a fragment of {values.size} parameters arrived, {places.size} are expected")
        return places, values

    def average(self, model: Vector, received: Iterable[Received]) -> None:
        """Takes the mean of each parameter over the own model and the fragments that have it.

        Sums go by rank, round and part. A parameter that is in no fragment stays the same, bit for bit.
        """
        total, count = model.astype(np.float64), np.ones(model.size)
        for each in sorted(received, key=lambda each: (each.sender, each.round, part_in(each))):
            places, values = usable(each, self.decode)
            total[places] += values
            count[places] += 1
        model[:] = total / count

    def _seed(self, round_: int) -> int:
        purpose = (str(round_),) if self._reseed == "round" else ()
        return derive(self._run_seed, "fragments", *purpose) >> (64 - _SEED_BITS)


def part_in(received: Received) -> int:
    """Which fragment a message is; raises UnusableModel, which names the sender, if it does not say."""
    part = received.message.fields.get(PART)
    if type(part) is not int:
        raise UnusableModel(received.sender, f"a fragment of the number {part!r}")
    return part


def sender_and_part(received: Received) -> tuple[int, int]:
    """The place that a newer fragment takes from an older one."""
    return received.sender, part_in(received)


# Nodes of one process cut alike; with a new permutation every round, some may be a few rounds ahead.
@lru_cache(maxsize=8)
def partition(seed: int, parameters: int, parts: int) -> tuple[Places, ...]:
    """The parameters of each part: each parameter is in exactly one of them."""
    # From raw bits of the generator, because only those are the same in every version of numpy.
    drawn = np.asarray(np.random.PCG64(seed).random_raw(parameters))
    order = np.argsort(drawn, kind="stable")
    found = tuple(np.sort(part) for part in np.array_split(order, parts))
    for part in found:
        part.flags.writeable = False
    return found
