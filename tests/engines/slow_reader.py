"""A fabric that reads late under load: `python -m tests.engines.slow_reader FOLDER PARENT`.

What is read comes from nodes' devices 3 ms late where the frame before came a moment ago.
"""

from __future__ import annotations

import sys
import time

import pytest

from testbed.engines.fabric.__main__ import main
from testbed.engines.fabric.python_plane import plane
from testbed.engines.fabric.python_plane.ports import Port, Ports
from tests.engines.shimmed import shim

LATE_S = 0.003
_A_MOMENT_S = 0.01


def make_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fabric that is started from here."""
    shim(monkeypatch, "tests.engines.slow_reader", (), late_us=round(LATE_S * 1e6))


class SlowPorts(Ports):
    """Those of such a fabric."""

    _last_s = 0.0

    def read(self, port: Port) -> bytes | None:
        if time.monotonic() - self._last_s < _A_MOMENT_S:
            time.sleep(LATE_S)
        self._last_s = time.monotonic()
        return super().read(port)


if __name__ == "__main__":
    vars(plane)["Ports"] = SlowPorts
    sys.exit(main(sys.argv[1:]))
