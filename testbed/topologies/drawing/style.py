"""Options of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Labels(StrEnum):
    """How much is written beside the parts of a picture."""

    AUTO = "auto"
    """What can be read at this size."""
    ALL = "all"
    """Everything, even where it gets crowded."""
    NONE = "none"
    """Only the names of regions."""


class Colour(StrEnum):
    """What the colour of a link stands for."""

    LATENCY = "latency"
    RATE = "rate"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class Style:
    labels: Labels = Labels.AUTO
    colour: Colour = Colour.LATENCY
