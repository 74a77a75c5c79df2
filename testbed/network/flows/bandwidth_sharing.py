"""Divides links among the flows that are sending, by either of two rules; and the cost of data in both directions.

Takes arrays, gives the rate of every flow; touches nothing. A flow is a row of link numbers; the last link number
stands for "no further link", and its capacity is the rate of a flow without any limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.network.graph import Floats

Links = NDArray[np.intp]
"""By flow, then by position on its path."""

_EQUAL = 1.0 + 1e-9
"""Shares that differ by less are equal, but for rounding."""

_ROUNDING = 1e-12
_FULL = 0.95
"""Share of its capacity from which a link counts as full."""
TWO_WAYS = 0.33
"""How much longer a flow takes whose acknowledgements cross a full link, as measured with the kernel's TCP between
four and six nodes (`docs/fidelity.md`)."""


def max_min(links: Links, capacity: Floats) -> Floats:
    """Max–min fair rates: no flow can get more without taking from one that has no more than it.

    Every step considers all links at once: if a link's share is the lowest on the paths of all its flows, it stays so
    whatever happens elsewhere, and all its flows get that share for good.
    """
    rates = np.empty(links.shape[0])
    left = capacity.copy()
    count = np.bincount(links.ravel(), minlength=capacity.size)
    rows = np.arange(links.shape[0])
    while rows.size:
        share = left / np.maximum(count, 1)
        share[-1] = capacity[-1]
        offered = share[links]
        level = offered.min(axis=1)
        lowest = offered <= (level * _EQUAL)[:, None]
        holding = np.bincount(links[lowest], minlength=capacity.size) == count
        holding[-1] = True
        settled = (lowest & holding[links]).any(axis=1)
        rates[rows[settled]] = level[settled]
        if np.count_nonzero(settled) == settled.size:
            break
        done = links[settled]
        taken = np.bincount(done.ravel(), np.repeat(level[settled], links.shape[1]), minlength=capacity.size)
        left = np.maximum(left - taken, capacity * _ROUNDING)
        count = count - np.bincount(done.ravel(), minlength=capacity.size)
        rows, links = rows[~settled], links[~settled]
    return rates


def held_back(rates: Floats, links: Links, back: Links, capacity: Floats, slower: Floats) -> Floats:
    """Factors by which flows with these rates take longer, where acknowledgements cross links that data fills.

    There acknowledgements queue behind data, so they arrive late and in bursts, and what they release travels as a
    burst. Flows of both directions then wait for each other: those with smaller windows are slower, though they fill no
    link, and receivers of all messages wait for them. `slower` is the increase for such a flow.
    """
    carried = np.bincount(links.ravel(), np.repeat(rates, links.shape[1]), minlength=capacity.size)
    is_full = carried >= capacity * _FULL
    is_full[-1] = False
    longer: Floats = slower * is_full[back].any(axis=1)
    return longer


def rtt_weighted(links: Links, capacity: Floats, rtt_s: Floats, used: Floats) -> Floats:
    """Kollaps' rule: shares proportional to the inverse of the round-trip time; leftovers are distributed once.

    `used` is each flow's demand: the slowest link of its path, or less.
    """
    width = links.shape[1]
    flat = links.ravel()

    def summed(values: NDArray[np.float64]) -> Floats:
        return np.bincount(flat, weights=values.ravel(), minlength=capacity.size).astype(np.float64)

    inverse = np.repeat((1.0 / rtt_s)[:, None], width, axis=1)
    weight = inverse / summed(inverse)[links]
    base = weight * capacity[links]
    wants = used[:, None]
    hungry = wants > base
    spare = capacity - summed(np.where(hungry, base, wants))
    hungry_weight = summed(np.where(hungry, weight, 0.0))[links] + np.where(hungry, 0.0, weight)
    share = np.maximum(base, base + weight / hungry_weight * spare[links])
    share[links == capacity.size - 1] = capacity[-1]
    rates: Floats = np.minimum(share.min(axis=1), used)
    return rates
