"""Colours that colour-blind people can tell apart on white, and scales from a quantity to a colour or a width.

Takes numbers, gives `#rrggbb` and widths; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

INK = "#1f2933"
MUTED = "#5f6b7a"
FAINT = "#c3cbd5"
BUBBLE = "#f5f7fa"
PAPER = "#ffffff"
BRIDGE = "#1f2933"
LOSS = "#d55e00"
STRAGGLER = "#d55e00"
UNLINKED = "#8a94a0"
NEUTRAL = "#98a5b3"
"""Of access links that are all alike."""

CATEGORIES = ("#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#8c6d1f")
"""Okabe and Ito's palette without black (bridges), orange-red (stragglers) and the yellow that white swallows."""

_RAMP = ("#84c94b", "#22a884", "#2a788e", "#414487", "#440154")
"""Light to dark, so that it survives a black-and-white printer; no step is too pale for a thin line on white."""


def ramp(share: float) -> str:
    """The colour at `share` (0…1) of the ramp."""
    position = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    low = min(int(position), len(_RAMP) - 2)
    part = position - low
    mixed = (
        round(int(_RAMP[low][at : at + 2], 16) * (1 - part) + int(_RAMP[low + 1][at : at + 2], 16) * part)
        for at in (1, 3, 5)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


_FAR_APART = 30.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a value lies between the least and the greatest: 0…1, bent when they are far apart."""

    low: float
    high: float
    power: float = 1.0
    """1: linear; below: small values get more room; 0: logarithmic."""

    @classmethod
    def of(cls, values: Iterable[float], power_when_far_apart: float) -> Scale:
        """A scale over the finite values; what is infinite lies at the top."""
        finite = sorted(value for value in values if math.isfinite(value))
        if not finite:
            return cls(0.0, 0.0)
        low, high = finite[0], finite[-1]
        far_apart = high > _FAR_APART * low and (low > 0 or power_when_far_apart > 0)
        return cls(low, high, power_when_far_apart if far_apart else 1.0)

    @property
    def flat(self) -> bool:
        return self.low == self.high

    def share(self, value: float) -> float:
        if not math.isfinite(value):
            return 1.0
        if self.flat:
            return 0.5
        low, high, here = self._bent(self.low), self._bent(self.high), self._bent(value)
        return (here - low) / (high - low)

    def value(self, share: float) -> float:
        """The value at a share: the inverse of `share`, exact at both ends."""
        if share in (0.0, 1.0):
            return self.high if share else self.low
        low, high = self._bent(self.low), self._bent(self.high)
        here = low + share * (high - low)
        return math.exp(here) if self.power == 0 else float(here ** (1 / self.power))

    def _bent(self, value: float) -> float:
        return math.log(value) if self.power == 0 else float(value**self.power)
