"""All soaks, by name."""

from __future__ import annotations

from soaks import algorithms, chaos, first_run, fuzz, hostile, long_tests, seeds
from soaks.soak import Soak

_ALL = (algorithms.SOAK, chaos.SOAK, first_run.SOAK, fuzz.SOAK, hostile.SOAK, long_tests.SOAK, seeds.SOAK)
ALL: dict[str, Soak] = {each.name: each for each in _ALL}
