"""How long work takes on a device whose speed changes in time.

Pure.
"""

from __future__ import annotations


def end_of_work(begin_s: float, nominal_s: float, pace: tuple[tuple[float, float], ...]) -> float:
    """When work that takes so long on a device of factor 1 is done by one whose factor changes in time."""
    now, left = begin_s, nominal_s
    for place, (_, factor) in enumerate(pace):
        until = pace[place + 1][0] if place + 1 < len(pace) else float("inf")
        if until <= now:
            continue
        if left * factor <= until - now:
            return now + left * factor
        left -= (until - now) / factor
        now = until
    return now + left
