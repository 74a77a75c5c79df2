"""The seed of the permutation that a world's models are cut by, as its messages tell it."""

from __future__ import annotations

from dataclasses import replace

from testbed.node.messages import Message
from tests.node.small_world import World


def seed_of(scene: World) -> int:
    """Runs the world for a round; every message has the same seed."""
    seeds = set[object]()

    def note(_sender: int, _to: int, message: Message) -> None:
        seeds.add(message.fields["seed"])

    replace(scene, rounds=1, dimension=23, first_model=None, before_shipping=note).run()
    (seed,) = seeds
    assert isinstance(seed, int)
    return seed
