"""A fabric that reads late under load: `python -m tests.engines.slow_reader FOLDER PARENT`.

What is read comes from nodes' devices 3 ms late where the frame before came a moment ago.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from testbed.engines.fabric import start
from testbed.engines.fabric.__main__ import main
from testbed.engines.fabric.python_plane import plane
from testbed.engines.fabric.python_plane.ports import Port, Ports
from testbed.engines.spawn import spawn_module

LATE_S = 0.003
_A_MOMENT_S = 0.01


def make_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fabric that is started from here."""

    def start_slow(module: str, arguments: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        assert module == "testbed.engines.fabric"
        return spawn_module("tests.engines.slow_reader", arguments, **more)

    monkeypatch.setattr(start, "spawn_module", start_slow)


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
