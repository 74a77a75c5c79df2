"""Whether this machine lets anybody keep to its times at all: what others do on it is no fault of the network."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

_NAPS = 200
_NAP_S = 0.005
_LATE_S = 0.002
_MOST_LATE = 0.02
"""Of the naps."""
_PATIENCE_S = 60.0


def wait_for_quiet() -> None:
    """Before something that was found wrong is looked at again; not for ever."""
    until_s = time.monotonic() + _PATIENCE_S
    while _share_of_late_naps() > _MOST_LATE and time.monotonic() < until_s:
        time.sleep(1.0)


def skip_where_nobody_keeps_time(overloaded: Sequence[str]) -> None:
    """Skips if the fabric says that it was late *and* a process that only sleeps is woken up late, too."""
    if overloaded and (late := _share_of_late_naps()) > _MOST_LATE:
        pytest.skip(f"this machine wakes {late:.0%} of all sleepers too late: {overloaded[0]}")


def _share_of_late_naps() -> float:
    return sum(_late_s() > _LATE_S for _ in range(_NAPS)) / _NAPS


def _late_s() -> float:
    began_s = time.monotonic()
    time.sleep(_NAP_S)
    return time.monotonic() - began_s - _NAP_S
