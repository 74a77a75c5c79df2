"""Memory that a simulation shares with its workers.

Takes numbers of rows and of parameters, gives rows of float32; touches anonymous memory, which is there as long as
somebody holds a row, and has no name that could be left behind. Pages that nobody writes cost nothing.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

_LINE = 16
"""Float32 values in a cache line: rows begin at one, so that no two workers write into the same."""


class Arena:
    """A vector of every kind per node, and some more to evaluate copies in. Make it before forking."""

    def __init__(self, rows: int, parameters: int, *, velocity: bool = False, evaluations: int = 16) -> None:
        self.rows = rows
        self.parameters = parameters
        self.model = _rows(rows, parameters)
        """Where a node's model is; its owner changes it only while no job of that row is under way."""
        self.trained = _rows(rows, parameters)
        """Where a job leaves what it made of the model."""
        self.velocity = _rows(rows, parameters) if velocity else None
        """What momentum remembers; zero at first."""
        self.evaluated = _rows(evaluations, parameters)
        """Copies of models to evaluate."""


def _rows(count: int, width: int) -> NDArray[np.float32]:
    stride = -(-width // _LINE) * _LINE
    memory = mmap.mmap(-1, max(1, count * stride) * 4)
    return np.frombuffer(memory, np.float32, count * stride).reshape(count, stride)[:, :width]
