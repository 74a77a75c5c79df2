"""The duration of work on a device whose speed changes over time.

Pure.
"""

from __future__ import annotations


def end_of_work(begin_s: float, nominal_s: float, pace: tuple[tuple[float, float], ...]) -> float:
    """The end of work that takes `nominal_s` at factor 1, on a device whose factor changes over time."""
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
