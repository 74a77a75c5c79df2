"""Token bucket: how many messages a connection may send at once, and per second in the long run.

Takes times, gives how long to wait; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable

BURST = 20_000
RATE_PER_S = 5000.0
"""A learner writes a few records a round, and no round is shorter than some milliseconds."""
_REST_S = 0.05
"""The pause of a connection whose bucket is empty: some hundreds of messages are read at once after it."""


class TokenBucket:
    """One connection's; `on_empty` is called once, when the bucket is empty for the first time."""

    def __init__(self, on_empty: Callable[[], None], burst: float = BURST, rate_per_s: float = RATE_PER_S) -> None:
        self._on_empty: Callable[[], None] | None = on_empty
        self._burst = burst
        self._rate_per_s = rate_per_s
        self._left = burst
        self._at_s: float | None = None

    def spend(self, now_s: float) -> float:
        """One more message was read; seconds to wait before the next one is, 0 for none."""
        if self._at_s is not None:
            self._left = min(self._burst, self._left + (now_s - self._at_s) * self._rate_per_s)
        self._at_s = now_s
        self._left -= 1
        if self._left > 0:
            return 0.0
        if self._on_empty is not None:
            told, self._on_empty = self._on_empty, None
            told()
        return _REST_S
