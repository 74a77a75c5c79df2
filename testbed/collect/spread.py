"""Statistics of a set of numbers: mean, standard deviation, extremes, quantiles.

Takes numbers, gives numbers; touches nothing. Statistics of an empty set are None.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Spread:
    """Over the whole population: `std` divides by n, not by n - 1."""

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Quantiles:
    median: float | None = None
    p95: float | None = None
    """Interpolated between two values."""


def spread(values: Iterable[float]) -> Spread:
    numbers = _known(values)
    if not numbers.size:
        return Spread()
    # The mean of equal numbers must equal them, which a rounded sum does not guarantee.
    least, most = float(numbers.min()), float(numbers.max())
    mean = min(max(float(numbers.mean()), least), most)
    return Spread(mean, float(numbers.std()) if least < most else 0.0, least, most)


def quantiles(values: Iterable[float]) -> Quantiles:
    numbers = _known(values)
    if not numbers.size:
        return Quantiles()
    median, p95 = np.percentile(numbers, [50, 95])
    return Quantiles(float(median), float(p95))


def _known(values: Iterable[float]) -> NDArray[np.float64]:
    numbers = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=np.float64)
    return numbers[~np.isnan(numbers)]
