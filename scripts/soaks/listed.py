"""All soaks, by name."""

from __future__ import annotations

from soaks import chaos, first_run, long_tests, seeds
from soaks.soak import Soak

ALL: dict[str, Soak] = {each.name: each for each in (chaos.SOAK, first_run.SOAK, long_tests.SOAK, seeds.SOAK)}
