"""Selects slow nodes, and computes their speed.

Takes a fraction, a number of nodes and a seed, gives ranks; touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from testbed import seeds
from testbed.errors import UsageProblem
from testbed.units import UNLIMITED

MOST_SLOWDOWN = 10_000
"""The language writes a compute factor with at most four decimals."""


class StragglerKind(StrEnum):
    """In what way a straggler is slow."""

    NETWORK = "network"
    COMPUTE = "compute"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Stragglers:
    """A fraction of the nodes that is `slowdown` times slower than the others."""

    fraction: float
    slowdown: float = 5.0
    kind: StragglerKind = StragglerKind.NETWORK

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise UsageProblem(f"a fraction of {self.fraction} stragglers", "a fraction lies between 0 and 1")
        if not 1 <= self.slowdown <= MOST_SLOWDOWN:
            raise UsageProblem(f"a slowdown of {self.slowdown}", f"a slowdown lies between 1 and {MOST_SLOWDOWN}")

    @property
    def slow_network(self) -> bool:
        return self.kind is not StragglerKind.COMPUTE

    @property
    def speed(self) -> float:
        """The compute factor of a straggler."""
        return 1.0 if self.kind is StragglerKind.NETWORK else round(1 / self.slowdown, 4)


def pick(stragglers: Stragglers, nodes: int, seed: int) -> frozenset[int]:
    """The slow ranks: `fraction` of all, at least one; one drawn from each of equal stretches of the rank order.

    Stretches, because experiments give low ranks special work (the first node of a ring, a server): if all slow nodes
    came first, or all last, that would be measured instead.
    """
    if stragglers.fraction == 0:
        return frozenset()
    count = max(1, round(stragglers.fraction * nodes))
    random = seeds.stream(seed, "generate", "stragglers")
    return frozenset(
        random.randrange(stretch * nodes // count, (stretch + 1) * nodes // count) for stretch in range(count)
    )


def slowed(rate_bps: float, slowdown: float) -> float:
    """The rate of a slow node's access link; in whole kbit/s if possible, so that Kollaps can express it."""
    if rate_bps == UNLIMITED:
        raise UsageProblem(
            "an unlimited access link cannot be slowed down",
            "give --access-rate, or make the stragglers slow at computing: --straggler-kind compute",
        )
    unit = 1000 if rate_bps / slowdown >= 1000 else 1
    return float(max(1, round(rate_bps / slowdown / unit)) * unit)
