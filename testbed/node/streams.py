"""A node's random streams and their positions, which snapshots save.

Takes names of purposes, gives generators and their states; touches nothing.
"""

from __future__ import annotations

from random import Random
from weakref import WeakValueDictionary

from testbed.node.state import State, UnusableState
from testbed.seeds import stream

_VERSION = 3
"""Version of the states of Python's generator."""


class Streams:
    """The streams of one node, by purpose."""

    def __init__(self, seed: int, node: str) -> None:
        self._seed = seed
        self._node = node
        self._given: WeakValueDictionary[str, Random] = WeakValueDictionary()
        """Generators still in use. One that is made anew in every round need not be saved."""
        self._restored: dict[str, Random] = {}

    def of(self, purpose: str) -> Random:
        """A new generator, the same in every run with the seed; after `restore`, once, the saved one."""
        random = self._restored.pop(purpose, None) or self._new(purpose)
        self._given[purpose] = random
        return random

    def state(self) -> State:
        """The states of generators in use that have been drawn from, by purpose."""
        return {
            purpose: _state(random)
            for purpose, random in sorted(self._given.items())
            if random.getstate() != self._new(purpose).getstate()
        }

    def restore(self, state: State) -> None:
        """Restores the result of `state`; raises UnusableState for anything else."""
        self._restored = {purpose: _restored(purpose, kept) for purpose, kept in state.items()}

    def _new(self, purpose: str) -> Random:
        return stream(self._seed, purpose, self._node)


def _state(random: Random) -> list[float | int | None]:
    _, words, spare = random.getstate()
    return [*words, spare]


def _restored(purpose: str, kept: object) -> Random:
    random = Random()  # noqa: S311 - experiments are repeated, not kept secret
    try:
        if not isinstance(kept, list) or not kept:
            raise TypeError("it is no list")
        random.setstate((_VERSION, tuple(kept[:-1]), kept[-1]))
    except (TypeError, ValueError, OverflowError) as problem:
        raise UnusableState(f"the random stream `{purpose}` cannot go on: {problem}") from None
    return random
