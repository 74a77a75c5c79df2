"""How many examples property tests draw."""

from __future__ import annotations

import os

_TIMES = int(os.environ.get("TESTBED_TEST_EXAMPLES", "1"))


def examples(in_ci: int) -> int:
    """For `max_examples`: so many where tests must be quick, times what `scripts/soak seeds` asks for."""
    return in_ci * _TIMES
