"""Keeps cores busy with other processes for the duration of a block."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "import os\nwhile os.getppid() == {parent}: sum(range(100_000))"
"""Ends with the process that started it, however that ends."""


@contextmanager
def kept_busy(cores: int) -> Iterator[list[int]]:
    """Runs this many spinning processes of ordinary priority; yields their ids, and ends them."""
    program = _SPIN.format(parent=os.getpid())
    spinning = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(cores)]
    try:
        yield [each.pid for each in spinning]
    finally:
        for each in spinning:
            each.kill()
            each.wait()
