"""Vectors for tests: different by learner or seed, the same every time."""

from __future__ import annotations

import numpy as np

from testbed.node.world import Vector


def vector(size: int, seed: int = 0) -> Vector:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def apart(learner: int) -> Vector:
    """A model of eight parameters to start from, another one for each learner."""
    return vector(8, 100 + learner)
