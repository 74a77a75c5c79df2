"""All soaks, by name."""

from __future__ import annotations

from soaks import first_run, seeds
from soaks.soak import Soak

ALL: dict[str, Soak] = {each.name: each for each in (first_run.SOAK, seeds.SOAK)}
