"""Rounds in which only some nodes work: the same ones by every node's reckoning, without any message.

Takes the run's seed, gives ranks; pure.
"""

from __future__ import annotations

from functools import lru_cache

from testbed.seeds import derive


@lru_cache(maxsize=4096)  # all nodes of one process ask for the same rounds
def active_nodes(seed: int, learners: tuple[int, ...], round_: int, most: int) -> tuple[int, ...]:
    """The nodes that work in a round, by position: the first ones by a hash of seed, rank and round."""
    return tuple(sorted(learners, key=lambda rank: derive(seed, "active", str(rank), str(round_)))[:most])
