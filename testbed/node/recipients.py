"""The recipients that nodes draw at random among all others.

Takes a seed and ranks, gives ranks; pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from random import Random

from testbed.plan.overlay_graph import check_degree, default_fanout
from testbed.seeds import stream

Recipients = Mapping[int, tuple[int, ...]]
"""The ranks that each learner sends to, ascending."""


def fanout_among(nodes: int, fanout: int | None, *, regular: bool = False) -> int:
    """The number of recipients: `fanout`, or log2 of the number of nodes, rounded up.

    With `regular` a node receives from those that it sends to. Raises NoGraph if no such graph exists.
    """
    chosen = default_fanout(nodes, regular=regular) if fanout is None else fanout
    check_degree("regular" if regular else "full", nodes, chosen, dynamic=True)
    return chosen


def some_of(others: Collection[int], finished: Collection[int], count: int, random: Random) -> list[int]:
    """Different ranks among others that have not finished: `count` of them, or all if there are fewer."""
    there = [rank for rank in others if rank not in finished]
    return random.sample(there, min(count, len(there)))


# All nodes of one process draw the same, so the draws are cached.
@lru_cache(maxsize=4)
def independent(
    seed: int, learners: tuple[int, ...], fanout: int, round_: int, parts: int = 1
) -> tuple[Recipients, ...]:
    """Each node's own draw in a round, for each part of its model, from streams of its own."""
    return tuple(
        {rank: _drawn(_stream(seed, round_, rank, part), learners, rank, fanout) for rank in learners}
        for part in range(parts)
    )


def _stream(seed: int, round_: int, rank: int, part: int) -> Random:
    purpose = (str(round_), str(rank), str(part)) if part else (str(round_), str(rank))
    return stream(seed, "drawn-recipients", *purpose)


def _drawn(random: Random, learners: tuple[int, ...], rank: int, fanout: int) -> tuple[int, ...]:
    return tuple(sorted(random.sample([other for other in learners if other != rank], fanout)))
