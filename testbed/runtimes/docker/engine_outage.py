"""EngineOutage with an Engine that is away for a while, such as one that is restarted: containers may outlive that.

Takes questions, gives their answers; asks again when there was none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.image.engine_client import is_silence

_RETURN_S = 30.0
"""How long it may be away."""
_AGAIN_S = 0.25
_Answer = TypeVar("_Answer")


class EngineOutage:
    """Of one run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.was_away = False
        """Whether it has ever been."""
        self._is_over = False

    def ask(self, question: Callable[[], _Answer], sees_life: Callable[[], bool] = lambda: False) -> _Answer:
        """The answer, perhaps after a while; raises what the question does when it has been away for too long.

        As long as the run itself is seen to live, it is never too long. Once it was, nothing is waited for any more.
        """
        until_s: float | None = None
        while True:
            try:
                return question()
            except Exception as problem:
                if self._is_over or not is_silence(problem):
                    raise
                if until_s is None:
                    self.was_away = True
                    self._say(f"warning: the Docker Engine does not answer; waiting for it, {_RETURN_S:.0f} s at least")
                if until_s is None or sees_life():
                    until_s = time.monotonic() + _RETURN_S
                if time.monotonic() > until_s:
                    self._is_over = True
                    raise
            time.sleep(_AGAIN_S)
