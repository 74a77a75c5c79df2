"""Independent random streams from one seed.

Takes a seed and the name of a purpose, gives a generator; touches nothing. The same seed and name give the same stream
on every machine; streams of different names are independent, so a new use of randomness never shifts the draws of an
old one.
"""

from __future__ import annotations

import hashlib
from random import Random


def derive(seed: int, *purpose: str) -> int:
    """A 64-bit seed for one purpose."""
    digest = hashlib.sha256("\x1f".join((str(seed), *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def stream(seed: int, *purpose: str) -> Random:
    """The random stream of one purpose."""
    return Random(derive(seed, *purpose))  # noqa: S311 - experiments are repeated, not kept secret
